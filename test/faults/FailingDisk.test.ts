import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { runDiskFaults } from "../../scripts/chaos/faults/disk.ts"
import { seededRandom } from "../support/breakingProxy.ts"

/** Other tests run concurrently and slow the machine down. */
const SLACK = 3
const TEST_MILLIS = 240_000

describe("Embedded PostgreSQL on a failing disk", () => {
  it.live(
    "loses nothing acknowledged, refuses writes meanwhile, and recovers by itself from a full and a read-only disk",
    () =>
      Effect.gen(function* () {
        const report = yield* runDiskFaults({
          random: seededRandom(7),
          rounds: 2,
          names: ["no space for the write-ahead log in the middle of commits", "the disk is read-only"],
          slack: SLACK,
          progress: () => undefined
        })
        if (report === undefined) {
          yield* Effect.log("skipped: this needs Linux and a C compiler (cc)")
          return
        }
        assert.deepStrictEqual(report.broken, [])
        assert.isAbove(report.acknowledged, 0)
        assert.isAbove(report.events, 0)
      }),
    TEST_MILLIS
  )
})
