/**
 * The arithmetic of budgets: the use of one within its sliding window, and whether a step still fits.
 *
 * A use is a list of entries, oldest first. An entry counts until its time is a window ago. If a list has `MAX_ENTRIES`, entries of about
 * the same time are merged into one, which counts until the last of them would. So a bound is never exceeded, and a merged entry counts at
 * most `1/SLOTS` of a window too long.
 */
import { BigDecimal, Option } from "effect"
import type { RuleBudget, RuleBudgetSum } from "./RuleBudget.ts"

/** Entries of a use before they are merged, and the parts of a window in which the entries are merged. */
export const MAX_ENTRIES = 64
export const SLOTS = 32

/** Steps that were allowed at about the same time. */
export interface BudgetEntry {
  /** When the last of them was allowed, in epoch milliseconds. */
  readonly at: number
  readonly steps: number
  /** The sum of their numbers; zero for a budget without `sum`. */
  readonly amount: BigDecimal.BigDecimal
}

/** The use of a budget, oldest first. */
export type BudgetUse = ReadonlyArray<BudgetEntry>

/** The limit of a budget that a step exceeds, with the use before the step. */
export type ExceededBudget =
  | { readonly limit: "count"; readonly used: number }
  | { readonly limit: "sum"; readonly used: BigDecimal.BigDecimal }

export const ZERO: BigDecimal.BigDecimal = BigDecimal.fromBigInt(0n)

/** The sums of some entries. */
export interface BudgetTotals {
  readonly steps: number
  readonly amount: BigDecimal.BigDecimal
}

/** A list of entries never changes, and many steps ask for the sums of the same one. */
const totalsOfLists = new WeakMap<BudgetUse, BudgetTotals>()

/** The sums of a list. */
export const totalsOf = (use: BudgetUse): BudgetTotals => {
  const known = totalsOfLists.get(use)
  if (known !== undefined) return known
  const totals = use.reduce<BudgetTotals>(addTotals, { steps: 0, amount: ZERO })
  totalsOfLists.set(use, totals)
  return totals
}

/** The sums of both. */
export const addTotals = (one: BudgetTotals, other: BudgetTotals): BudgetTotals => ({
  steps: one.steps + other.steps,
  // Most budgets have no sum.
  amount: other.amount === ZERO ? one.amount : BigDecimal.sum(one.amount, other.amount)
})

/** A list with further entries. */
export const appendEntries = (use: BudgetUse, added: ReadonlyArray<BudgetEntry>): BudgetUse => {
  const appended = [...use, ...added]
  totalsOfLists.set(appended, added.reduce(addTotals, totalsOf(use)))
  return appended
}

/**
 * The time at which a use is evaluated. Times of one use never decrease, although the clocks of replicas differ by milliseconds: an entry
 * that one of them takes as past would else count again for another.
 */
export const timeOf = (use: BudgetUse, now: number): number => Math.max(now, use.at(-1)?.at ?? now)

/** The entries that still count. */
const inWindow = (
  { window_seconds }: Pick<RuleBudget, "window_seconds">,
  use: BudgetUse,
  time: number
): BudgetUse => {
  const since = time - window_seconds * 1_000
  const first = use[0]
  return first === undefined || first.at > since ? use : use.filter(({ at }) => at > since)
}

/** What counts of a use. */
export const usedOf = (
  budget: Pick<RuleBudget, "window_seconds">,
  use: BudgetUse,
  now: number
): BudgetTotals => totalsOf(inWindow(budget, use, timeOf(use, now)))

/** The largest sums, which are the same for all steps of a rule. */
const limits = new WeakMap<RuleBudgetSum, BigDecimal.BigDecimal>()

const limitOf = (sum: RuleBudgetSum): BigDecimal.BigDecimal => {
  const known = limits.get(sum)
  if (known !== undefined) return known
  const limit = BigDecimal.fromNumberUnsafe(sum.at_most)
  limits.set(sum, limit)
  return limit
}

/** The limit that one more step exceeds; undefined: it fits. */
export const findExceeded = (
  { count, sum }: Pick<RuleBudget, "count" | "sum">,
  used: BudgetTotals,
  amount: BigDecimal.BigDecimal
): ExceededBudget | undefined => {
  if (count !== null && used.steps + 1 > count) return { limit: "count", used: used.steps }
  if (sum === null) return undefined
  const limit = limitOf(sum)
  return BigDecimal.isGreaterThan(BigDecimal.sum(used.amount, amount), limit)
    ? { limit: "sum", used: used.amount }
    : undefined
}

/** The entries of a use that still count, merged if there are many. */
export const compactUse = (
  budget: Pick<RuleBudget, "window_seconds">,
  use: BudgetUse,
  now: number
): BudgetUse => {
  const counted = inWindow(budget, use, timeOf(use, now))
  return counted.length < MAX_ENTRIES ? counted : merge(counted, (budget.window_seconds * 1_000) / SLOTS)
}

/** Merges the entries of each slot into one with the time of the last. */
const merge = (use: BudgetUse, slot: number): BudgetUse => {
  const merged: Array<BudgetEntry> = []
  for (const entry of use) {
    const last = merged.at(-1)
    if (last === undefined || Math.floor(last.at / slot) !== Math.floor(entry.at / slot)) merged.push(entry)
    else
      merged.splice(-1, 1, {
        at: entry.at,
        ...addTotals(last, entry)
      })
  }
  return merged
}

/** The number that a step adds to a sum; undefined: it is no number, or negative, which would give other steps more than the budget. */
export const amountOf = (value: unknown): BigDecimal.BigDecimal | undefined =>
  typeof value === "number" && value >= 0 ? Option.getOrUndefined(BigDecimal.fromNumber(value)) : undefined
