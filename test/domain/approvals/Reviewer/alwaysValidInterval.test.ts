import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { alwaysValidInterval } from "../../../../src/domain/approvals/Reviewer/alwaysValidInterval.ts"

/** Numbers from 0 to 1 that are the same in every run (mulberry32). */
const random = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

describe("alwaysValidInterval", () => {
  it("its ends solve (of + 1) * P(count; of, p) = 0.05", () => {
    // 0 of 99: 100 * (1 - p)^99 = 0.05.
    assert.closeTo(alwaysValidInterval(0, 99).high, 1 - 0.0005 ** (1 / 99), 1e-12)
    assert.closeTo(alwaysValidInterval(99, 99).low, 0.0005 ** (1 / 99), 1e-12)
    // 1 of 3: 4 * 3 * p * (1 - p)^2 = 0.05, solved by hand to six digits.
    const { high, low } = alwaysValidInterval(1, 3)
    for (const end of [low, high]) assert.closeTo(4 * 3 * end * (1 - end) ** 2, 0.05, 1e-9)
    assert.deepStrictEqual(alwaysValidInterval(0, 0), { low: 0, high: 1 })
  })

  it.each([0.5, 0.9, 0.97, 0.99, 0.999])(
    "of reviewers that are right with a chance of %d, it misses at most 5 % at any of 1,500 looks",
    (share) => {
      const next = random(Math.round(share * 1_000))
      const reviewers = 400
      let missed = 0
      for (let reviewer = 0; reviewer < reviewers; reviewer++) {
        let count = 0
        for (let of = 1; of <= 1_500; of++) {
          if (next() < share) count++
          // The exact test of the interval: as many looks as trials.
          if (isOutside(count, of, share)) {
            missed++
            break
          }
        }
      }
      assert.isAtMost(missed, 0.05 * reviewers)
    }
  )

  it("contains the observed share, and narrows with more trials of the same share", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (of, share) => {
          const count = Math.round(of * share)
          const one = alwaysValidInterval(count, of)
          const other = alwaysValidInterval(2 * count, 2 * of)
          assert.isAtMost(one.low, count / of)
          assert.isAtLeast(one.high, count / of)
          assert.isAtMost(other.high - other.low, one.high - one.low)
        }
      )
    )
  })
})

/** Computed another way than the interval itself: by the sum of logarithms of factorials. */
const logFactorials = [0]
const isOutside = (count: number, of: number, share: number): boolean => {
  for (let i = logFactorials.length; i <= of; i++) logFactorials.push(logFactorials[i - 1]! + Math.log(i))
  const logChance =
    logFactorials[of]! -
    logFactorials[count]! -
    logFactorials[of - count]! +
    count * Math.log(share) +
    (of - count) * Math.log(1 - share)
  const byFormula = Math.log(of + 1) + logChance < Math.log(0.05)
  // The interval itself, at some of the looks: it takes longer.
  if (of % 97 === 0) {
    const { high, low } = alwaysValidInterval(count, of)
    assert.strictEqual(share < low || share > high, byFormula)
  }
  return byFormula
}
