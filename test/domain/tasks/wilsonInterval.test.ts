import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  alwaysValidDifference,
  independentDifference,
  pairedDifference,
  repeatedDifference,
  repeatedInterval,
  wilsonInterval
} from "../../../src/domain/tasks/wilsonInterval.ts"

import { seededRandom } from "../../support/breakingProxy.ts"

const near = (actual: number, expected: number) => assert.closeTo(actual, expected, 0.00005)

describe("wilsonInterval", () => {
  // Newcombe 1998 (Statistics in Medicine 17, 857 to 872), table I, method 3.
  it.each([
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718]
  ])("the interval of %i in %i is the published one", (count, of, low, high) => {
    const interval = wilsonInterval(count, of)
    near(interval.low, low)
    near(interval.high, high)
  })

  it("the interval is exact to twelve digits", () => {
    assert.closeTo(wilsonInterval(81, 263).low, 0.255288519878, 1e-12)
    assert.closeTo(wilsonInterval(81, 263).high, 0.366209576983, 1e-12)
    assert.closeTo(wilsonInterval(3, 7).low, 0.158219855251, 1e-12)
    assert.closeTo(wilsonInterval(3, 7).high, 0.749541635472, 1e-12)
  })

  it("the interval contains the proportion, lies between 0 and 1, and narrows with more trials", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (of, share) => {
          const count = Math.round(of * share)
          const { high, low } = wilsonInterval(count, of)
          assert.isAtLeast(low, 0)
          assert.isAtMost(high, 1)
          assert.isAtMost(low, count / of)
          assert.isAtLeast(high, count / of)
          assert.isAtMost(high - low, 2 / Math.sqrt(of) + 1e-9)
        }
      )
    )
    assert.deepStrictEqual(wilsonInterval(0, 0), { low: 0, high: 1 })
  })
})

describe("pairedDifference", () => {
  // Newcombe 1998 (Statistics in Medicine 17, 2635 to 2650), table II, method 10.
  it.each([
    [{ both: 36, first: 12, second: 2, neither: 0 }, 0.0569, 0.3404],
    [{ both: 20, first: 12, second: 2, neither: 16 }, 0.0562, 0.3292],
    [{ both: 0, first: 0, second: 0, neither: 50 }, -0.0713, 0.0713],
    [{ both: 54, first: 0, second: 0, neither: 0 }, -0.0664, 0.0664]
  ])("the difference of %o is the published one", (paired, low, high) => {
    const difference = pairedDifference(paired)
    near(difference.low, low)
    near(difference.high, high)
  })

  // The worked example of Altman, Machin, Bryant, Gardner, "Statistics with Confidence", 2000, table 6.2.
  it("the difference of 14, 5, 0 and 22 is the one of the textbook", () => {
    const { high, low, value } = pairedDifference({ both: 14, first: 5, second: 0, neither: 22 })
    assert.strictEqual(value.toFixed(3), "0.122")
    assert.strictEqual(low.toFixed(3), "0.011")
    assert.strictEqual(high.toFixed(3), "0.226")
  })

  // Computed independently with 60 decimal digits: with a correlation that is corrected, corrected to zero, and negative.
  it.each([
    [{ both: 36, first: 12, second: 2, neither: 0 }, 0.056929584003, 0.340427602975],
    [{ both: 20, first: 12, second: 2, neither: 16 }, 0.056156424842, 0.3292069954],
    [{ both: 10, first: 15, second: 5, neither: 20 }, 0.025838416549, 0.356936571659],
    [{ both: 3, first: 4, second: 2, neither: 4 }, -0.204903951524, 0.463238947369],
    [{ both: 1000, first: 30, second: 10, neither: 200 }, 0.005995979383, 0.026515482997],
    [{ both: 500, first: 3, second: 0, neither: 497 }, -0.000908757089, 0.006907309809]
  ])("the difference of %o is exact to twelve digits", (paired, low, high) => {
    const difference = pairedDifference(paired)
    assert.closeTo(difference.low, low, 1e-12)
    assert.closeTo(difference.high, high, 1e-12)
  })

  it("swapping the sides negates the difference, which stays between -1 and 1", () => {
    const count = fc.integer({ min: 0, max: 1_000 })
    fc.assert(
      fc.property(count, count, count, count, (both, first, second, neither) => {
        const one = pairedDifference({ both, first, second, neither })
        const other = pairedDifference({ both, first: second, second: first, neither })
        assert.closeTo(one.value, -other.value, 1e-12)
        assert.closeTo(one.low, -other.high, 1e-9)
        assert.isAtLeast(one.low, -1)
        assert.isAtMost(one.high, 1)
        assert.isAtMost(one.low, one.value)
        assert.isAtLeast(one.high, one.value)
      })
    )
  })

  /** Sums of repeated answers, from how many agree on each example. */
  const sumsOf = (counts: ReadonlyArray<number>) => ({
    sum: counts.reduce((total, count) => total + count, 0),
    squares: counts.reduce((total, count) => total + count * count, 0)
  })

  it("the interval of repeated answers has the coverage that it claims, and the one of single answers has not", () => {
    const random = seededRandom(20261127)
    const [examples, repeats, experiments] = [80, 5, 1_000]
    let [covered, naive] = [0, 0]
    for (let experiment = 0; experiment < experiments; experiment++) {
      // Most inputs are always answered right, or never: the mean is 0.6.
      const counts = Array.from({ length: examples }, () => {
        const kind = random()
        const share = kind < 0.5 ? 1 : kind < 0.8 ? 0 : 0.5
        return Array.from({ length: repeats }, () => Number(random() < share)).reduce(
          (total, one) => total + one,
          0
        )
      })
      const { high, low } = repeatedInterval({ examples, repeats, ...sumsOf(counts) })
      covered += Number(low <= 0.6 && high >= 0.6)
      const single = wilsonInterval(sumsOf(counts).sum, examples * repeats)
      naive += Number(single.low <= 0.6 && single.high >= 0.6)
    }
    assert.isAbove(covered / experiments, 0.93)
    assert.isBelow(covered / experiments, 0.975)
    assert.isBelow(naive / experiments, 0.75)
  })

  it("the difference of repeated answers covers the true one, and is recomputed from the shares of each example", () => {
    const random = seededRandom(20261128)
    const [examples, repeats, experiments] = [60, 3, 600]
    let covered = 0
    for (let experiment = 0; experiment < experiments; experiment++) {
      const pairs = Array.from({ length: examples }, () => {
        const hard = random() < 0.5
        const answersOf = (share: number) =>
          Array.from({ length: repeats }, () => Number(random() < share)).reduce(
            (total, one) => total + one,
            0
          )
        return [answersOf(hard ? 0.4 : 1), answersOf(hard ? 0.2 : 1)] as const
      })
      const first = pairs.map(([one]) => one)
      const second = pairs.map(([, two]) => two)
      const difference = repeatedDifference({
        examples,
        repeats,
        first: sumsOf(first),
        second: sumsOf(second),
        products: pairs.reduce((total, [one, two]) => total + one * two, 0)
      })
      covered += Number(difference.low <= 0.1 && difference.high >= 0.1)
      if (experiment > 0) continue
      const mean = (values: ReadonlyArray<number>) =>
        values.reduce((total, one) => total + one, 0) / values.length
      const shares = (counts: ReadonlyArray<number>) => counts.map((count) => count / repeats)
      const boundsOf = (counts: ReadonlyArray<number>) => {
        const share = mean(shares(counts))
        const variance = Math.max(
          mean(shares(counts).map((one) => (one - share) ** 2)),
          (share * (1 - share)) / repeats
        )
        const of = (share * (1 - share) * examples) / variance
        const [z, middle] = [1.959963984540054, share + 1.959963984540054 ** 2 / (2 * of)]
        const spread = z * Math.sqrt((share * (1 - share)) / of + z ** 2 / (4 * of * of))
        return {
          share,
          low: (middle - spread) / (1 + z ** 2 / of),
          high: (middle + spread) / (1 + z ** 2 / of)
        }
      }
      const [one, two] = [boundsOf(first), boundsOf(second)]
      const centered = pairs.map(([a, b]) => [a / repeats - one.share, b / repeats - two.share] as const)
      const correlation =
        mean(centered.map(([a, b]) => a * b)) /
        Math.sqrt(mean(centered.map(([a]) => a * a)) * mean(centered.map(([, b]) => b * b)))
      const margin = (up: number, down: number) =>
        Math.sqrt(up * up - 2 * correlation * up * down + down * down)
      assert.closeTo(difference.value, one.share - two.share, 1e-12)
      assert.closeTo(
        difference.low,
        difference.value - margin(one.share - one.low, two.high - two.share),
        1e-9
      )
      assert.closeTo(
        difference.high,
        difference.value + margin(one.high - one.share, two.share - two.low),
        1e-9
      )
    }
    assert.isAbove(covered / experiments, 0.92)
  })

  it("answers that all agree are known of as many inputs as there are examples", () => {
    assert.deepStrictEqual(
      repeatedInterval({ examples: 10, repeats: 5, ...sumsOf(Array(10).fill(5)) }),
      wilsonInterval(10, 10)
    )
    const none = { examples: 0, repeats: 5, sum: 0, squares: 0 }
    assert.deepStrictEqual(repeatedInterval(none), { low: 0, high: 1 })
    const noDifference = repeatedDifference({
      examples: 0,
      repeats: 5,
      first: none,
      second: none,
      products: 0
    })
    assert.deepStrictEqual(noDifference, { value: 0, low: -1, high: 1 })
  })

  it("who looks after every answer is misled by the usual interval, and by the always valid one at most 1 time in 20", () => {
    const random = seededRandom(20261126)
    let [usual, always] = [0, 0]
    const experiments = 400
    for (let experiment = 0; experiment < experiments; experiment++) {
      const counts = [0, 0]
      let [isUsual, isAlways] = [false, false]
      for (let of = 1; of <= 400; of++) {
        for (const arm of [0, 1]) counts[arm] = (counts[arm] ?? 0) + Number(random() < 0.8)
        if (of < 20) continue
        const [first, second] = [
          { count: counts[0] ?? 0, of },
          { count: counts[1] ?? 0, of }
        ]
        const once = independentDifference(first, second)
        isUsual ||= once.low > 0 || once.high < 0
        const bounds = alwaysValidDifference(first, second)
        isAlways ||= bounds.low > 0 || bounds.high < 0
      }
      usual += Number(isUsual)
      always += Number(isAlways)
    }
    assert.isAbove(usual / experiments, 0.2)
    assert.isAtMost(always / experiments, 0.05)
  })

  it("the always valid bounds find a real difference, and are those of the published test", () => {
    const [first, second] = [
      { count: 450, of: 500 },
      { count: 350, of: 500 }
    ]
    const { high, low } = alwaysValidDifference(first, second)
    assert.isAbove(low, 0)
    // The mixture likelihood ratio at the bound is 1 / 0.05.
    const [p, q] = [451 / 502, 351 / 502]
    const variance = (p * (1 - p) + q * (1 - q)) / 500
    const margin = high - 0.2
    const ratio =
      Math.sqrt(variance / (variance + 0.01)) *
      Math.exp((margin ** 2 * 0.01) / (2 * variance * (variance + 0.01)))
    assert.closeTo(ratio, 20, 1e-6)
    assert.closeTo(high - 0.2, 0.2 - low, 1e-12)
    assert.deepStrictEqual(alwaysValidDifference({ count: 0, of: 0 }, first), { low: -1, high: 1 })
  })

  // The worked examples of the paper, table II, method 10.
  it.each([
    [{ count: 56, of: 70 }, { count: 48, of: 80 }, "0.0524", "0.3339"],
    [{ count: 9, of: 10 }, { count: 3, of: 10 }, "0.1705", "0.8090"],
    [{ count: 10, of: 10 }, { count: 0, of: 20 }, "0.6791", "1.0000"],
    [{ count: 10, of: 10 }, { count: 0, of: 10 }, "0.6075", "1.0000"]
  ])("the independent difference of %o and %o is the one of the paper", (first, second, low, high) => {
    const difference = independentDifference(first, second)
    assert.strictEqual(difference.low.toFixed(4), low)
    assert.strictEqual(difference.high.toFixed(4), high)
  })
})
