/**
 * Fifty thousand spans a second for half a minute, to a collector that never answers, and no cap before the queue: how far the memory of
 * a process that does nothing else rises, and whether every span is accounted for. It is a process of its own, so that what other parts
 * have left behind does not hide what this one takes; the memory before is that of a second at a tenth of the rate.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { Spans } from "../../../src/server/Spans.ts"
import { machine, residentMegabytes } from "../measure.ts"
import { startStore } from "../service.ts"
import { organizationAt, recordSome, startHouse } from "./house.ts"
import { startCollector } from "./stub.ts"

const PER_SECOND = 50_000
const SECONDS = 30
const STEP_MILLIS = 10

/** Spans of the second before. */
const BEFORE = 5_000

const out = (text: string): void => void process.stdout.write(`${text}\n`)

const store = await startStore()
const collector = await startCollector()
const house = startHouse(await store.database("bench_overload"), { spansPerSecond: 10_000_000 })
const org_id = await house.runPromise(organizationAt(`${collector.url}/hang`))
const record = (count: number) => house.runPromise(recordSome(org_id, count))
for (let step = 0; step < 100; step++) {
  await record(BEFORE / 100)
  await pause(STEP_MILLIS)
}
const before = residentMegabytes(process.pid)
let recorded = BEFORE
let highest = before
const cpu = process.cpuUsage()
const begin = performance.now()
while (performance.now() - begin < SECONDS * 1000) {
  const due = BEFORE + Math.floor(((performance.now() - begin) / 1000) * PER_SECOND)
  const count = due - recorded
  await record(count)
  recorded += count
  highest = Math.max(highest, residentMegabytes(process.pid))
  await pause(STEP_MILLIS)
}
const { system, user } = process.cpuUsage(cpu)
const { counted, here } = await house.runPromise(
  Effect.gen(function* () {
    const spans = yield* Spans
    yield* spans.flush
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly waiting: number; readonly dropped: number }>`
      SELECT waiting_spans::float8 AS waiting, dropped_spans::float8 AS dropped
      FROM telemetry_destinations
    `
    return { counted: row ?? { waiting: 0, dropped: 0 }, here: spans.held(org_id) }
  })
)
out(machine())
out(
  `recorded ${recorded} spans in ${SECONDS} s, ${Math.round(recorded / SECONDS)} a second, ${Math.round(((user + system) / 1e6 / SECONDS) * 100)} % of a core`
)
out(
  `waiting ${counted.waiting + here.waiting}, dropped ${counted.dropped + here.dropped}, unaccounted ${recorded - counted.waiting - counted.dropped - here.waiting - here.dropped}`
)
out(
  `memory ${before.toFixed(0)} MB before, ${highest.toFixed(0)} MB at most: +${(highest - before).toFixed(0)} MB`
)
await house.dispose()
collector.stop()
await store.dispose()
