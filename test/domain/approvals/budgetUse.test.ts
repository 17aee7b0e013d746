import { assert, describe, it } from "@effect/vitest"
import { BigDecimal } from "effect"
import fc from "fast-check"
import type { RuleBudget } from "../../../src/domain/approvals/RuleBudget.ts"
import {
  amountOf,
  appendEntries,
  type BudgetUse,
  compactUse,
  findExceeded,
  MAX_ENTRIES,
  SLOTS,
  timeOf,
  usedOf
} from "../../../src/domain/approvals/budgetUse.ts"

type Limits = Pick<RuleBudget, "count" | "sum" | "window_seconds">

const decimal = (value: number) => amountOf(value) ?? assert.fail(`${value} is an amount`)

const exceeded = (budget: Limits, use: BudgetUse, amount: number, now: number) =>
  findExceeded(budget, usedOf(budget, use, now), decimal(amount))

/** Submits a step: the use with it, or undefined if it does not fit. */
const submit = (budget: Limits, use: BudgetUse, amount: number, now: number): BudgetUse | undefined => {
  if (exceeded(budget, use, amount, now) !== undefined) return undefined
  return appendEntries(compactUse(budget, use, now), [
    { at: timeOf(use, now), steps: 1, amount: decimal(amount) }
  ])
}

/** The most steps and the largest sum within any window of allowed steps, whose times do not decrease. */
const largestWindow = (
  steps: ReadonlyArray<{ readonly at: number; readonly amount: number }>,
  seconds: number
) => {
  let count = 0
  let sum = decimal(0)
  for (const { at: start } of steps) {
    const inside = steps.filter(({ at }) => at >= start && at < start + seconds * 1_000)
    count = Math.max(count, inside.length)
    sum = BigDecimal.max(sum, BigDecimal.sumAll(inside.map(({ amount }) => decimal(amount))))
  }
  return { count, sum }
}

describe("budgetUse", () => {
  it("sums are decimal: 0.1 fits 23 times into 2.3", () => {
    const budget = { window_seconds: 60, count: null, sum: { pointer: "/a", at_most: 2.3 } }
    let use: BudgetUse = []
    for (let step = 1; step <= 23; step++)
      use = submit(budget, use, 0.1, step) ?? assert.fail(`step ${step} fits`)
    assert.deepStrictEqual(exceeded(budget, use, 0.1, 24), {
      limit: "sum",
      used: decimal(2.3)
    })
  })

  it("a step counts until a window after it was allowed, and not a millisecond longer", () => {
    const budget = { window_seconds: 60, count: 1, sum: null }
    const use = submit(budget, [], 0, 1_000) ?? assert.fail("it fits")
    assert.deepStrictEqual(exceeded(budget, use, 0, 60_999), { limit: "count", used: 1 })
    assert.isUndefined(exceeded(budget, use, 0, 61_000))
  })

  it("a replica whose clock is behind does not count a step into a window that another one has left", () => {
    const budget = { window_seconds: 60, count: null, sum: { pointer: "/a", at_most: 10 } }
    const steps = [
      [10, 0],
      [0, 60_000],
      [10, 59_500]
    ] as const
    let use: BudgetUse = []
    for (const [amount, now] of steps) use = submit(budget, use, amount, now) ?? assert.fail("it fits")
    assert.deepStrictEqual(
      use.map(({ at }) => at),
      [60_000, 60_000]
    )
  })

  it("values that are no amount: texts, negative numbers, and nothing", () => {
    for (const value of [
      "5",
      -1,
      -1e-9,
      null,
      undefined,
      [5],
      { value: 5 },
      Number.NaN,
      Number.POSITIVE_INFINITY
    ])
      assert.isUndefined(amountOf(value))
    for (const value of [0, 1e21, 1e-9, 5e-324, Number.MAX_VALUE])
      assert.strictEqual(BigDecimal.toNumberUnsafe(decimal(value)), value)
  })

  it("a use has a limited number of entries, and counts a merged one for a limited part of the window longer", () => {
    const budget = { window_seconds: 100, count: 1_000_000, sum: null }
    let use: BudgetUse = []
    for (let now = 0; now < 99_000; now += 10) {
      use = submit(budget, use, 0, now) ?? assert.fail("it fits")
      assert.isAtMost(use.length, MAX_ENTRIES)
    }
    const later = 100_000 + 20_000
    const counted = compactUse(budget, use, later).reduce((total, { steps }) => total + steps, 0)
    const exact = 9_900 - 2_001
    assert.isAtLeast(counted, exact)
    assert.isAtMost(counted, exact + 100_000 / SLOTS / 10)
  })

  it("no window of allowed steps exceeds a bound, whatever the times, the skew of clocks and the amounts are", () => {
    fc.assert(
      fc.property(
        fc.record({
          count: fc.option(fc.integer({ min: 1, max: 150 })),
          at_most: fc.option(fc.integer({ min: 1, max: 20_000 })),
          window_seconds: fc.integer({ min: 1, max: 20 })
        }),
        fc.array(
          fc.record({
            // Clocks of replicas: most steps are later than the one before, some are earlier.
            wait: fc.integer({ min: -400, max: 1_500 }),
            cents: fc.integer({ min: 0, max: 10_000 }),
            burst: fc.integer({ min: 1, max: 40 })
          }),
          { maxLength: 60 }
        ),
        ({ at_most, count, window_seconds }, arrivals) => {
          const sum = at_most === null ? null : { pointer: "/a", at_most: at_most / 100 }
          const budget = { window_seconds, count, sum }
          const allowed: Array<{ at: number; amount: number }> = []
          let use: BudgetUse = []
          let now = 1_000_000
          for (const { burst, cents, wait } of arrivals) {
            now += wait
            for (let step = 0; step < burst; step++) {
              const amount = cents / 100
              const next = submit(budget, use, amount, now)
              if (next === undefined) continue
              use = next
              allowed.push({ at: use.at(-1)?.at ?? now, amount })
            }
          }
          const largest = largestWindow(allowed, window_seconds)
          if (count !== null) assert.isAtMost(largest.count, count)
          if (sum !== null) assert.isTrue(BigDecimal.isLessThanOrEqualTo(largest.sum, decimal(sum.at_most)))
        }
      )
    )
  })
})
