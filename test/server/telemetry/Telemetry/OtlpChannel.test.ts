import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { nextDelay } from "../../../../src/domain/delivery/RetryPolicy.ts"
import { exportRetries } from "../../../../src/server/telemetry/Telemetry/OtlpChannel.ts"

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

/** The delay after this many attempts, in milliseconds, at one point of the jitter. */
const waitAfter = (made: number, at: number, left = Infinity) =>
  nextDelay(exportRetries, made, at, null, left)

describe("OtlpChannel › retries", () => {
  it("the delay starts at 1 s and grows by half up to 30 s, with 50 % jitter", () => {
    const made = Array.from({ length: 12 }, (_, index) => index + 1)
    assert.deepStrictEqual(
      made.map((attempts) => waitAfter(attempts, 0.5)),
      [1_000, 1_500, 2_250, 3_375, 5_063, 7_594, 11_391, 17_086, 25_629, 30_000, 30_000, 30_000]
    )
    assert.deepStrictEqual(
      [waitAfter(1, 0), waitAfter(10, 0), waitAfter(10, 0.999_999)],
      [500, 15_000, 45_000]
    )
  })

  it("a batch is retried for five minutes, whatever the jitter, and no longer", () => {
    fc.assert(
      fc.property(fc.array(random, { minLength: 100, maxLength: 100 }), (spread) => {
        let elapsed = 0
        for (const [index, at] of spread.entries()) {
          const wait = waitAfter(index + 1, at, (exportRetries.maxElapsedMillis ?? 0) - elapsed)
          if (wait === null) break
          elapsed += wait
        }
        assert.isAtMost(elapsed, 300_000)
        // The time limit ends it: less than the longest possible delay is left.
        assert.isAbove(elapsed, 255_000)
      })
    )
  })

  it("retry-after is respected if it ends within the five minutes", () => {
    assert.strictEqual(nextDelay(exportRetries, 1, 0.5, 299_000, 300_000), 299_000)
    assert.isNull(nextDelay(exportRetries, 1, 0.5, 299_000, 298_000))
  })
})
