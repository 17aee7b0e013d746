import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  chargeTokens,
  rateLimit,
  rateLimitWithin,
  reserveToken,
  takeToken
} from "../../../src/domain/identity/RateLimit.ts"

/** Sends requests at the given times and returns whether each was allowed. */
const send = (perSecond: number, times: ReadonlyArray<number>) => {
  let fullAt = Number.NEGATIVE_INFINITY
  return times.map((now) => {
    const taken = takeToken(rateLimit(perSecond), fullAt, now)
    fullAt = taken.fullAt
    return taken
  })
}

describe("RateLimit", () => {
  // A bucket of 4 tokens that takes 1 s to fill. `fullAt`: when it is full again.
  const ofSecond = rateLimit(4)
  // A bucket of 3 tokens that takes 1 h to fill.
  const ofHour = rateLimitWithin(3, 3_600_000)

  it.each([
    ["a full bucket", ofSecond, 0, 1_000, { allowed: true, fullAt: 1_250, remaining: 3, waitMillis: 0 }],
    [
      "a bucket with half its tokens",
      ofSecond,
      1_500,
      1_000,
      { allowed: true, fullAt: 1_750, remaining: 1, waitMillis: 0 }
    ],
    ["the last token", ofSecond, 1_750, 1_000, { allowed: true, fullAt: 2_000, remaining: 0, waitMillis: 0 }],
    [
      "an empty bucket",
      ofSecond,
      2_000,
      1_000,
      { allowed: false, fullAt: 2_000, remaining: 0, waitMillis: 250 }
    ],
    [
      "a bucket that owes tokens",
      ofSecond,
      5_000,
      1_000,
      { allowed: false, fullAt: 5_000, remaining: 0, waitMillis: 3_250 }
    ],
    [
      "an empty bucket of an hour",
      ofHour,
      3_600_000,
      0,
      { allowed: false, fullAt: 3_600_000, remaining: 0, waitMillis: 1_200_000 }
    ]
  ] as const)("takes from %s what the time allows", (_, limit, fullAt, now, expected) => {
    assert.deepStrictEqual(takeToken(limit, fullAt, now), expected)
  })

  it("takes several tokens or none, and more than the bucket holds when it is full", () => {
    const take = (fullAt: number, now: number, count: number) => takeToken(rateLimit(10), fullAt, now, count)
    assert.deepInclude(take(0, 0, 8), { allowed: true, fullAt: 800, remaining: 2 })
    assert.deepInclude(take(800, 0, 3), { allowed: false, fullAt: 800, waitMillis: 100 })
    assert.deepInclude(take(800, 0, 2), { allowed: true, fullAt: 1_000 })
    assert.deepInclude(take(1_000, 1_000, 25), { allowed: true, fullAt: 3_500, remaining: 0 })
    assert.deepInclude(take(1_001, 1_000, 25), { allowed: false, fullAt: 1_001, waitMillis: 1 })
  })

  it.each([
    ["a full bucket", 0, { fullAt: 1_250, waitMillis: 0 }],
    ["the last token", 1_750, { fullAt: 2_000, waitMillis: 0 }],
    ["an empty bucket", 2_000, { fullAt: 2_250, waitMillis: 250 }],
    ["a bucket that owes tokens", 5_000, { fullAt: 5_250, waitMillis: 3_250 }]
  ] as const)("reserves from %s with the wait for the token", (_, fullAt, expected) => {
    assert.deepStrictEqual(reserveToken(ofSecond, fullAt, 1_000), expected)
  })

  it.each([
    ["a full bucket", 0, 2, 1_500],
    ["an empty bucket", 2_000, 8, 4_000],
    ["an empty bucket, a token given back", 2_000, -1, 1_750]
  ] as const)("charges %s without a limit", (_, fullAt, count, expected) => {
    assert.strictEqual(chargeTokens(ofSecond, fullAt, 1_000, count), expected)
  })

  it("a burst is allowed immediately, then one request per interval", () => {
    const times = [0, 0, 0, 0, 249, 250, 250, 499, 500, 2_000, 2_000, 2_000, 2_000, 2_000]
    assert.deepStrictEqual(
      send(4, times).map(({ allowed, remaining }) => (allowed ? remaining : "refused")),
      [3, 2, 1, 0, "refused", 0, "refused", "refused", 0, 3, 2, 1, 0, "refused"]
    )
  })

  it("a refused request is allowed after the returned wait", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000 }),
        fc.double({ min: 0, max: 1e9, noNaN: true }),
        (perSecond, now) => {
          const limit = rateLimit(perSecond)
          const burst = send(
            perSecond,
            Array.from({ length: perSecond + 1 }, () => now)
          )
          const last = burst.at(-1)
          assert.isTrue(burst.slice(0, -1).every(({ allowed }) => allowed))
          assert.isFalse(last?.allowed)
          assert.isAtMost(last?.waitMillis ?? 0, limit.intervalMillis + 1e-3)
          assert.isTrue(takeToken(limit, last?.fullAt ?? 0, now + (last?.waitMillis ?? 0)).allowed)
        }
      ),
      { numRuns: 50 }
    )
  })

  it("in any period at most the rate for that period plus one burst is allowed", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 200 }),
        (perSecond, gaps) => {
          let now = 0
          const times = gaps.map((gap) => (now += gap))
          const allowed = send(perSecond, times).flatMap(({ allowed }, index) =>
            allowed ? [times[index] ?? 0] : []
          )
          for (const [from, begin] of allowed.entries()) {
            for (const [to, end] of allowed.entries()) {
              if (to < from) continue
              const most = perSecond + ((end - begin) * perSecond) / 1000
              assert.isAtMost(to - from + 1, most + 1e-3)
            }
          }
        }
      ),
      { numRuns: 200 }
    )
  })
})
