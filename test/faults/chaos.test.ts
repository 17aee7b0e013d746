import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { brokenGuarantees, missedDeadlines } from "../../scripts/chaos/plan.ts"
import { chaos } from "../../scripts/chaos/run.ts"
import { startDatabase } from "../../scripts/chaos/store.ts"
import { layerWebhookDependencies } from "../support/delivery.ts"
import { seededRandom } from "../support/breakingProxy.ts"
import { dataDirectory } from "../support/embeddedPostgres.ts"

const eventsPerFault = 60

/**
 * Other tests run concurrently and slow the machine down, so these are wider than those of `npm run chaos`. They still tell a
 * released shard from one whose lease of 10 s ran out, and a lease that ran out from one that nobody took over.
 */
const deadlines = { takeover: 30_000, drain: 5_000 }

describe("Chaos", () => {
  it.live(
    "killed, frozen, stopped and disconnected replicas lose no event, repeat only requests in flight, and are taken over in time",
    () =>
      Effect.gen(function* () {
        const store = yield* startDatabase({ dataDir: yield* dataDirectory, sync: false })
        const faults = [
          "freeze",
          "kill",
          "break connections",
          "kill",
          "restart the database",
          "stop",
          "kill"
        ] as const
        const report = yield* chaos({
          url: store.url,
          restartDatabase: store.restart,
          replicas: 3,
          faults,
          eventsPerFault,
          random: seededRandom(7)
        }).pipe(Effect.provide(Layer.merge(store.layer, layerWebhookDependencies)))
        assert.deepStrictEqual([...brokenGuarantees(report), ...missedDeadlines(report, deadlines)], [])
        assert.isAbove(report.takeover, 0)
        assert.isAbove(report.drain, 0)
        assert.isAtLeast(report.events, faults.length * eventsPerFault)
        assert.isAbove(report.inFlight, 0)
      }),
    300_000
  )
})
