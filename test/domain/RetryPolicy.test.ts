import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { defaultRetryPolicy, nextDelay, type RetryPolicy } from "../../src/domain/RetryPolicy.ts"

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

const policies: fc.Arbitrary<RetryPolicy> = fc.record({
  delays: fc.array(fc.nat({ max: 86_400_000 }), { minLength: 1, maxLength: 20 }),
  jitter: fc.double({ min: 0, max: 0.9, noNaN: true }),
  longestRetryAfter: fc.nat({ max: 7_200_000 })
})

describe("nextDelay", () => {
  it("follows the schedule of the contract", () => {
    const waits = defaultRetryPolicy.delays.map((_, made) => nextDelay(defaultRetryPolicy, made, 0.5, null))
    assert.deepStrictEqual(
      waits.map((wait) => (wait ?? 0) / 1000),
      [0, 5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800]
    )
    assert.strictEqual(nextDelay(defaultRetryPolicy, 10, 0.5, null), null)
  })

  it("strays by a fifth to either side, and no further", () => {
    assert.strictEqual(nextDelay(defaultRetryPolicy, 1, 0, null), 4000)
    assert.isAtMost(nextDelay(defaultRetryPolicy, 1, 1 - Number.EPSILON, null) ?? Infinity, 6000)
    fc.assert(
      fc.property(policies, fc.nat({ max: 25 }), random, (policy, made, at) => {
        const wait = nextDelay(policy, made, at, null)
        const planned = policy.delays[made]
        if (planned === undefined) return assert.strictEqual(wait, null)
        assert.isAtMost(Math.abs((wait ?? Infinity) - planned), planned * policy.jitter + 0.5)
        assert.isTrue(Number.isSafeInteger(wait))
      })
    )
  })

  it("waits as long as the receiver asks, up to the longest that is honoured, and never less than planned", () => {
    fc.assert(
      fc.property(policies, fc.nat({ max: 25 }), random, fc.nat({ max: 1e9 }), (policy, made, at, asked) => {
        const planned = nextDelay(policy, made, at, null)
        const wait = nextDelay(policy, made, at, asked)
        if (planned === null) return assert.strictEqual(wait, null)
        assert.strictEqual(wait, Math.max(planned, Math.min(asked, policy.longestRetryAfter)))
      })
    )
    assert.strictEqual(nextDelay(defaultRetryPolicy, 1, 0.5, 86_400_000), 3_600_000)
  })
})
