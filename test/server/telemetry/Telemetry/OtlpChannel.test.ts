import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { nextDelay } from "../../../../src/domain/delivery/RetryPolicy.ts"
import { exportRetries } from "../../../../src/server/telemetry/Telemetry/OtlpChannel.ts"

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

/** The wait after so many attempts, in milliseconds, at a point of its spread. */
const waitAfter = (made: number, at: number, left = Infinity) =>
  nextDelay(exportRetries, made, at, null, left)

describe("a batch that a collector does not take", () => {
  it("is sent again after 1 s, half as much longer each time up to 30 s, and half of that sooner or later", () => {
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

  it("is sent again for five minutes, however the waits stray, and no longer", () => {
    fc.assert(
      fc.property(fc.array(random, { minLength: 100, maxLength: 100 }), (spread) => {
        let elapsed = 0
        for (const [index, at] of spread.entries()) {
          const wait = waitAfter(index + 1, at, (exportRetries.maxElapsedMillis ?? 0) - elapsed)
          if (wait === null) break
          elapsed += wait
        }
        assert.isAtMost(elapsed, 300_000)
        // What ends it is the time: less than the longest wait that could come is left.
        assert.isAbove(elapsed, 255_000)
      })
    )
  })

  it("waits for as long as the collector asks, if that is within the five minutes", () => {
    assert.strictEqual(nextDelay(exportRetries, 1, 0.5, 299_000, 300_000), 299_000)
    assert.isNull(nextDelay(exportRetries, 1, 0.5, 299_000, 298_000))
  })
})
