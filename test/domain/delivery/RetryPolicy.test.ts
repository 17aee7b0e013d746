import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  defaultRetryPolicy,
  exponentialRetryPolicy,
  nextDelay,
  type RetryPolicy
} from "../../../src/domain/delivery/RetryPolicy.ts"

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

const policies: fc.Arbitrary<RetryPolicy> = fc.record({
  delaysMillis: fc.array(fc.nat({ max: 86_400_000 }), { minLength: 1, maxLength: 20 }),
  jitter: fc.double({ min: 0, max: 0.9, noNaN: true }),
  maxRetryAfterMillis: fc.nat({ max: 7_200_000 }),
  maxElapsedMillis: fc.constant(null)
})

describe("nextDelay", () => {
  it("follows the documented schedule", () => {
    const waits = defaultRetryPolicy.delaysMillis.map((_, made) =>
      nextDelay(defaultRetryPolicy, made, 0.5, null, Infinity)
    )
    assert.deepStrictEqual(
      waits.map((wait) => (wait ?? 0) / 1000),
      [0, 5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800]
    )
    assert.strictEqual(nextDelay(defaultRetryPolicy, 10, 0.5, null, Infinity), null)
  })

  it("jitter changes a delay by at most 20% to either side", () => {
    assert.strictEqual(nextDelay(defaultRetryPolicy, 1, 0, null, Infinity), 4000)
    assert.isAtMost(nextDelay(defaultRetryPolicy, 1, 1 - Number.EPSILON, null, Infinity) ?? Infinity, 6000)
    fc.assert(
      fc.property(policies, fc.nat({ max: 25 }), random, (policy, made, at) => {
        const wait = nextDelay(policy, made, at, null, Infinity)
        const planned = policy.delaysMillis[made]
        if (planned === undefined) return assert.strictEqual(wait, null)
        assert.isAtMost(Math.abs((wait ?? Infinity) - planned), planned * policy.jitter + 0.5)
        assert.isTrue(Number.isSafeInteger(wait))
      })
    )
  })

  it("waits as long as Retry-After asks, up to the maximum, and never less than scheduled", () => {
    fc.assert(
      fc.property(policies, fc.nat({ max: 25 }), random, fc.nat({ max: 1e9 }), (policy, made, at, asked) => {
        const planned = nextDelay(policy, made, at, null, Infinity)
        const wait = nextDelay(policy, made, at, asked, Infinity)
        if (planned === null) return assert.strictEqual(wait, null)
        assert.strictEqual(wait, Math.max(planned, Math.min(asked, policy.maxRetryAfterMillis)))
      })
    )
    assert.strictEqual(nextDelay(defaultRetryPolicy, 1, 0.5, 86_400_000, Infinity), 3_600_000)
  })

  it("returns null if the next attempt would be too late, also because of Retry-After", () => {
    assert.strictEqual(nextDelay(defaultRetryPolicy, 1, 0.5, null, 5_000), 5_000)
    assert.strictEqual(nextDelay(defaultRetryPolicy, 1, 0.5, null, 4_999), null)
    assert.strictEqual(nextDelay(defaultRetryPolicy, 1, 0.5, 60_000, 59_999), null)
  })
})

describe("exponentialRetryPolicy", () => {
  const options = { firstMillis: 100, factor: 2, longestMillis: 700, maxElapsedMillis: 10_000, jitter: 0.5 }

  it("starts immediately, then waits longer each time up to the maximum", () => {
    const { delaysMillis } = exponentialRetryPolicy(options)
    assert.deepStrictEqual(delaysMillis.slice(0, 6), [0, 100, 200, 400, 700, 700])
    assert.strictEqual(Math.max(...delaysMillis), 700)
  })

  it("has delays for the whole elapsed time, even if jitter shortens each of them", () => {
    const { delaysMillis } = exponentialRetryPolicy(options)
    const shortest = delaysMillis.reduce((sum, delay) => sum + delay * (1 - options.jitter), 0)
    assert.isAtLeast(shortest, options.maxElapsedMillis)
  })
})
