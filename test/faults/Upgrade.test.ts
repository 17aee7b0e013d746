import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { runUpgrade } from "../../scripts/chaos/faults/upgrade.ts"
import { seededRandom } from "../support/breakingProxy.ts"

describe("Upgrade", () => {
  it.live(
    "replicas of the previous release are replaced one by one by this one, and back, and no client notices",
    (context) =>
      Effect.gen(function* () {
        const report = yield* runUpgrade({
          random: seededRandom(11),
          rounds: 2,
          progress: (line) => void process.stderr.write(`${line}\n`)
        })
        // The reason is printed: a shallow clone has no previous release.
        if (report === undefined) return context.skip()
        assert.deepStrictEqual(report.broken, [])
        assert.isAbove(report.accepted, 100)
        assert.deepStrictEqual(
          report.rounds.map(({ fault, refused }) => [fault, refused]),
          [
            ["this release", 0],
            ["previous release", 0]
          ]
        )
      }).pipe(Effect.scoped),
    300_000
  )
})
