/**
 * The long run of the fault tests: 200 kills of replicas, with the other faults between them, over more than 20,000
 * events. Prints a report, and fails if a guarantee was broken. `node scripts/chaos.ts [kills]`; 200 kills take a
 * quarter of an hour.
 */
import { Effect, Layer } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { layerWebhookDependencies } from "../test/support/delivery.ts"
import { seededRandom } from "../test/support/breakingProxy.ts"
import { brokenGuarantees, faultsFor, missedDeadlines } from "./chaos/plan.ts"
import { chaos } from "./chaos/run.ts"
import { startDatabase } from "./chaos/store.ts"

const kills = Number(process.argv[2] ?? "200")
const dataDir = mkdtempSync(path.join(tmpdir(), "countersign-chaos-"))

const program = Effect.gen(function* () {
  const store = yield* startDatabase({ dataDir })
  return yield* chaos({
    url: store.url,
    restartDatabase: store.restart,
    replicas: 5,
    faults: faultsFor(kills),
    eventsPerFault: 100,
    random: seededRandom(kills),
    progress: console.log
  }).pipe(Effect.provide(Layer.merge(store.layer, layerWebhookDependencies)))
})

try {
  const report = await Effect.runPromise(Effect.scoped(program))
  console.log(report)
  const promises = [...brokenGuarantees(report), ...missedDeadlines(report)]
  for (const promise of promises) console.error(`broken: ${promise}`)
  if (promises.length > 0) process.exitCode = 1
} finally {
  rmSync(dataDir, { recursive: true, force: true })
}
