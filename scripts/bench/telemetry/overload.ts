/**
 * Fifty thousand spans a second for half a minute, to a collector that never answers, and no cap before the queue: how far the memory of
 * this process rises, and whether every span is accounted for.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { generateTraceId } from "../../../src/domain/Ids.ts"
import { spanIdOf } from "../../../src/domain/Span.ts"
import { Spans } from "../../../src/server/Spans.ts"
import { machine, residentMegabytes } from "../measure.ts"
import { startStore } from "../service.ts"
import { organizationAt, startHouse } from "./house.ts"
import { startCollector } from "./stub.ts"
import { attributesOf } from "./traces.ts"

const PER_SECOND = 50_000
const SECONDS = 30
const STEP_MILLIS = 10

const out = (text: string): void => void process.stdout.write(`${text}\n`)

export const overload = async (): Promise<void> => {
  const store = await startStore()
  const collector = await startCollector()
  const house = startHouse(await store.database("bench_overload"), { spansPerSecond: 10_000_000 })
  const org_id = await house.runPromise(organizationAt(`${collector.url}/hang`))
  const record = (count: number) =>
    house.runPromise(
      Effect.gen(function* () {
        const spans = yield* Spans
        for (let number = 0; number < count; number++) {
          const trace_id = yield* generateTraceId
          yield* spans.record(org_id, {
            trace_id,
            count: 1,
            whole: true,
            make: (at) => [
              {
                trace_id,
                span_id: spanIdOf(trace_id.slice(0, 16)),
                parent_span_id: null,
                name: "chat gpt-small",
                kind: "client",
                start: at,
                end: at,
                attributes: attributesOf(number)
              }
            ]
          })
        }
      })
    )
  // A first second, so that what any work needs is not counted against this.
  await record(2_000)
  await pause(1_000)
  const before = residentMegabytes(process.pid)
  let recorded = 2_000
  let highest = before
  const cpu = process.cpuUsage()
  const begin = performance.now()
  while (performance.now() - begin < SECONDS * 1000) {
    const due = 2_000 + Math.floor(((performance.now() - begin) / 1000) * PER_SECOND)
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
}
