/**
 * Fifty thousand spans a second for half a minute, and no cap before the queue, to a collector that never answers (`hang`) or one that
 * takes all of them, each request after 200 ms (`slow`): how far the memory of a process that does nothing else rises, and whether every
 * span is accounted for. The memory before is that of a process which has sent a tenth as many for a second, and holds none of them.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { machine, residentMegabytes } from "../measure.ts"
import { startStore } from "../service.ts"
import { organizationAt, recordSome, startHouse } from "./house.ts"
import { startCollector } from "./stub.ts"

const PER_SECOND = 50_000
const SECONDS = 30
const STEP_MILLIS = 10

/** Spans of the second before. */
const BEFORE = 5_000

/** How the collector is. */
const isSlow = process.argv[2] === "slow"

const out = (text: string): void => void process.stdout.write(`${text}\n`)

const store = await startStore()
const collector = await startCollector()
const house = startHouse(await store.database("bench_overload"), { spansPerSecond: 10_000_000 })
const quick = await house.runPromise(organizationAt(collector.url))
for (let step = 0; step < 100; step++) {
  await house.runPromise(recordSome(quick, BEFORE / 100))
  await pause(STEP_MILLIS)
}
await collector.until(BEFORE)
const org_id = await house.runPromise(organizationAt(`${collector.url}/${isSlow ? "slow" : "hang"}`))
const before = residentMegabytes(process.pid)
let recorded = 0
let highest = before
const cpu = process.cpuUsage()
const begin = performance.now()
while (performance.now() - begin < SECONDS * 1000) {
  const due = Math.floor(((performance.now() - begin) / 1000) * PER_SECOND)
  await house.runPromise(recordSome(org_id, due - recorded))
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
  const here = spans.held(org_id)
  return { waiting: (row?.waiting ?? 0) + here.waiting, dropped: (row?.dropped ?? 0) + here.dropped }
})
let counted = await house.runPromise(count)
// What is on its way may have arrived and not be settled: it is counted once it is.
if (isSlow) {
  while (counted.waiting > 0) {
    await pause(100)
    counted = await house.runPromise(count)
  }
}
const arrived = isSlow ? collector.spans() - BEFORE : 0
out(`${machine()}, a collector that ${isSlow ? "takes its time" : "never answers"}`)
out(
  `recorded ${recorded} spans in ${SECONDS} s, ${Math.round(recorded / SECONDS)} a second, ${Math.round(((user + system) / 1e6 / SECONDS) * 100)} % of a core`
)
out(
  `arrived ${arrived}, waiting ${counted.waiting}, dropped ${counted.dropped}, unaccounted ${recorded - arrived - counted.waiting - counted.dropped}`
)
out(
  `memory ${before.toFixed(0)} MB before, ${highest.toFixed(0)} MB at most: +${(highest - before).toFixed(0)} MB`
)
await house.dispose()
collector.stop()
await store.dispose()
