/**
 * Fifty thousand spans per second for half a minute, without a rate cap, to a collector that never answers (`hang`) or that accepts every
 * request after 200 ms (`slow`): how far memory rises, and whether every span is accounted for (delivered, queued or counted as dropped).
 * The baseline is the memory of the same process after it has exported a tenth of that rate for a second.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { atMost, machine, residentMegabytes } from "../measure.ts"
import { startStore } from "../service.ts"
import { organizationExportingTo, recordTraces, startPipeline } from "./pipeline.ts"
import { startCollector } from "./stub.ts"

const PER_SECOND = 50_000
const SECONDS = 30
const STEP_MILLIS = 10

/** Spans of the warm-up second. */
const WARM_UP_SPANS = 5_000

/** Which collector is tested. */
const isSlow = process.argv[2] === "slow"

const out = (text: string): void => void process.stdout.write(`${text}\n`)

const store = await startStore()
const collector = await startCollector()
const pipeline = startPipeline(await store.database("bench_overload"), { spansPerSecond: 10_000_000 })
const warmUpOrganization = await pipeline.runPromise(organizationExportingTo(collector.url))
for (let step = 0; step < 100; step++) {
  await pipeline.runPromise(recordTraces(warmUpOrganization, WARM_UP_SPANS / 100))
  await pause(STEP_MILLIS)
}
await collector.until(WARM_UP_SPANS)
const org_id = await pipeline.runPromise(
  organizationExportingTo(`${collector.url}/${isSlow ? "slow" : "hang"}`)
)
const before = residentMegabytes(process.pid)
let recorded = 0
let highest = before
const cpu = process.cpuUsage()
const begin = performance.now()
while (performance.now() - begin < SECONDS * 1000) {
  const due = Math.floor(((performance.now() - begin) / 1000) * PER_SECOND)
  await pipeline.runPromise(recordTraces(org_id, due - recorded))
  recorded = due
  highest = Math.max(highest, residentMegabytes(process.pid))
  await pause(STEP_MILLIS)
}
const { system, user } = process.cpuUsage(cpu)
const count = Effect.gen(function* () {
  const spans = yield* Spans
  yield* spans.flush
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly waiting: number; readonly dropped: number }>`
    SELECT waiting_spans::float8 AS waiting, dropped_spans::float8 AS dropped
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
  `
  const here = spans.localCounts(org_id)
  return { waiting: (row?.waiting ?? 0) + here.waiting, dropped: (row?.dropped ?? 0) + here.dropped }
})
let counted = await pipeline.runPromise(count)
// A batch may have arrived and not be recorded as delivered yet: wait until it is, to count it once.
if (isSlow) {
  while (counted.waiting > 0) {
    await pause(100)
    counted = await pipeline.runPromise(count)
  }
}
const arrived = isSlow ? collector.spans() - WARM_UP_SPANS : 0
out(`${machine()}, a collector that ${isSlow ? "answers after 200 ms" : "never answers"}`)
out(
  `recorded ${recorded} spans in ${SECONDS} s, ${Math.round(recorded / SECONDS)} per second, ${Math.round(((user + system) / 1e6 / SECONDS) * 100)} % of a core`
)
out(`delivered ${arrived}, queued ${counted.waiting}, dropped ${counted.dropped}`)
const unaccounted = Math.abs(recorded - arrived - counted.waiting - counted.dropped)
out(atMost("spans not accounted for", [unaccounted], 0, "spans"))
out(`memory: ${before.toFixed(0)} MB before, ${highest.toFixed(0)} MB at peak`)
out(atMost("growth of memory", [highest - before], 100, "MB"))
await pipeline.dispose()
collector.stop()
await store.dispose()
