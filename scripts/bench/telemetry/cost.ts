/**
 * Processor time of this process from the end of a span to its acceptance by a collector: ours, by the store and compressed, against
 * OpenTelemetry's SDK with its batch processor and its OTLP/HTTP JSON exporter, in rounds that alternate. Both are given spans that are made
 * already, of ten attributes, in batches of 512, and end so many of them in a turn of the event loop. What counts is all of the process:
 * its threads for compression, ciphers and garbage, and for ours the engine that carries batches. The store's own processes are shown beside.
 */
import { SpanKind } from "@opentelemetry/api"
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http"
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { generateTraceId } from "../../../src/domain/Ids.ts"
import { type Span, spanIdOf } from "../../../src/domain/telemetry/Span.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { alternate, line, machine, median } from "../measure.ts"
import { startStore } from "../service.ts"
import { organizationAt, recordSome, startHouse } from "./house.ts"
import { startCollector } from "./stub.ts"
import { attributesOf } from "./traces.ts"

const SPANS = 512 * 16
const ROUNDS = 16

/** Until the compiler has seen what there is: ours is four times as much code as theirs, and its rounds fall for as long as this. */
const WARM_UP = 16

/** Spans that end before the event loop goes round, on both sides. */
const AT_ONCE = 128

const out = (text: string): void => void process.stdout.write(`${text}\n`)

/** One turn of the event loop. */
const turn = () => new Promise<void>((resume) => void setImmediate(resume))

/** Microseconds of processor time a span. */
const measured = async (work: () => Promise<unknown>): Promise<number> => {
  const before = process.cpuUsage()
  await work()
  const { system, user } = process.cpuUsage(before)
  return (user + system) / SPANS
}

const store = await startStore()
const collector = await startCollector()
const house = startHouse(await store.database("bench_telemetry"), {
  queueLimit: SPANS * 100,
  spansPerSecond: 10_000_000
})
const org_id = await house.runPromise(organizationAt(collector.url))
const sdk = (compression: "none" | "gzip") => {
  process.env["OTEL_EXPORTER_OTLP_COMPRESSION"] = compression
  return new TracerProvider({
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url: `${collector.url}/v1/traces` }),
        maxQueueSize: SPANS * 2,
        maxExportBatchSize: 512
      })
    ]
  })
}
const plain = sdk("none")
const zipped = sdk("gzip")

// Whether an organization has a destination is looked up once: before the rounds.
await house.runPromise(recordSome(org_id, 1))
await collector.until(1)
let expected = 1
let storeSeconds = 0
const isWaiting = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly waiting: boolean }>`
    SELECT waiting_spans > 0 AS waiting
    FROM telemetry_destinations
  `
  return row?.waiting === true
})
const ours = async (): Promise<number> => {
  const ready = await house.runPromise(
    Effect.forEach(Array.from({ length: SPANS }), (_, number) =>
      Effect.map(generateTraceId, (trace_id): Span => ({
        trace_id,
        span_id: spanIdOf(trace_id.slice(0, 16)),
        parent_span_id: null,
        name: "chat gpt-small",
        kind: "client",
        start: Date.now(),
        end: Date.now(),
        attributes: attributesOf(number)
      }))
    )
  )
  expected += SPANS
  const before = store.processorSeconds()
  const result = await measured(async () => {
    await house.runPromise(
      Effect.gen(function* () {
        const spans = yield* Spans
        for (const [number, span] of ready.entries()) {
          yield* spans.record(org_id, {
            trace_id: span.trace_id,
            count: 1,
            whole: true,
            make: () => [span]
          })
          if (number % AT_ONCE === AT_ONCE - 1) yield* Effect.promise(turn)
        }
      })
    )
    await collector.until(expected)
    // What follows on a delivery is ours too, and in nobody else's round.
    while (await house.runPromise(isWaiting)) await pause(5)
  })
  storeSeconds += store.processorSeconds() - before
  return result
}
const theirs = (provider: TracerProvider) => async (): Promise<number> => {
  const tracer = provider.getTracer("bench")
  const ready = Array.from({ length: SPANS }, (_, number) =>
    tracer.startSpan("chat gpt-small", { kind: SpanKind.CLIENT, attributes: attributesOf(number) })
  )
  expected += SPANS
  return measured(async () => {
    for (const [number, span] of ready.entries()) {
      span.end()
      if (number % AT_ONCE === AT_ONCE - 1) await turn()
    }
    await provider.forceFlush()
    await collector.until(expected)
  })
}

const [we = [], they = [], theyToo = []] = await alternate([ours, theirs(plain), theirs(zipped)], {
  warmUp: WARM_UP,
  rounds: ROUNDS
})
out(machine())
out(line("OpenTelemetry SDK, batch, OTLP/HTTP JSON", they, "µs of CPU a span"))
out(line("the same, gzip", theyToo, "µs of CPU a span"))
out(line("Countersign, by the store, gzip", we, "µs of CPU a span"))
const beside = (storeSeconds * 1e6) / (SPANS * (ROUNDS + WARM_UP))
out(`${"the store's own processes, beside".padEnd(44)} ${beside.toFixed(1).padStart(10)} µs of CPU a span`)
const times = (values: ReadonlyArray<number>, more: number) =>
  (median(values) / (median(we) + more)).toFixed(2)
out(
  `spans per second of CPU, to the SDK plain: ${times(they, 0)} × (goal: 2), to the SDK with gzip: ${times(theyToo, 0)} ×`
)
out(`the store counted as ours: ${times(they, beside)} × and ${times(theyToo, beside)} ×`)
await plain.shutdown()
await zipped.shutdown()
await house.dispose()
collector.stop()
await store.dispose()
