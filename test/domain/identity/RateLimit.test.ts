import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { rateLimit, takeToken } from "../../../src/domain/identity/RateLimit.ts"

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
