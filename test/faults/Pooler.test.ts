import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { runPoolerFailover } from "../../scripts/chaos/faults/failover.ts"
import { seededRandom } from "../support/breakingProxy.ts"
import { pgbouncerProgram } from "../support/pgbouncer.ts"

const canRun = process.platform === "linux" && pgbouncerProgram !== undefined
if (!canRun) process.stderr.write("Pooler is skipped: it needs Linux and PgBouncer\n")

describe.skipIf(!canRun)("Two replicas behind PgBouncer", () => {
  it.live(
    "lose nothing that they acknowledged when it is killed and started again, and accept writes within 15 s",
    () =>
      Effect.gen(function* () {
        const report = yield* runPoolerFailover({
          random: seededRandom(3),
          rounds: 1,
          progress: () => undefined,
          names: ["the pooler is restarted"],
          // Other tests run at the same time.
          slack: 2
        })
        const { broken, events, rounds } = report ?? assert.fail("it did not run")
        assert.deepStrictEqual(broken, [])
        assert.lengthOf(rounds, 1)
        assert.isAbove(events, 0)
      }).pipe(Effect.scoped),
    180_000
  )
})
