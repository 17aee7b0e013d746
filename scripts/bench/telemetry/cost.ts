/**
 * Processor time from the end of a span to its acceptance by a collector: this service (queued in the database, compressed) beside
 * OpenTelemetry's SDK with its batch processor and OTLP/HTTP JSON exporter, in interleaved rounds. Both get spans of ten attributes that
 * exist already, in batches of 512, 128 spans per tick of the event loop. The figure is that of the whole process: its threads for
 * compression, encryption and garbage collection, and for this service the delivery engine. PostgreSQL is shown separately.
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
import { alternate, atLeast, line, machine, median } from "../measure.ts"
import { startStore } from "../service.ts"
import { organizationExportingTo, recordTraces, startPipeline } from "./pipeline.ts"
import { startCollector } from "./stub.ts"
import { attributesOf } from "./traces.ts"

const SPANS = 512 * 16
const ROUNDS = 16

/** Rounds until the JIT compiler has settled: figures of this service, which has four times as much code, fall until then. */
const WARM_UP = 24

/** Spans that end in one tick of the event loop, on both sides. */
const SPANS_PER_TICK = 128

const out = (text: string): void => void process.stdout.write(`${text}\n`)

/** The next tick of the event loop. */
const nextTick = () => new Promise<void>((resume) => void setImmediate(resume))

/** Microseconds of processor time per span. */
const measured = async (work: () => Promise<unknown>): Promise<number> => {
  const before = process.cpuUsage()
  await work()
  const { system, user } = process.cpuUsage(before)
  return (user + system) / SPANS
}

const store = await startStore()
const collector = await startCollector()
const pipeline = startPipeline(await store.database("bench_telemetry"), {
  queueLimit: SPANS * 100,
  spansPerSecond: 10_000_000
})
const org_id = await pipeline.runPromise(organizationExportingTo(collector.url))
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

// The look-up of the destination is cached before the rounds.
await pipeline.runPromise(recordTraces(org_id, 1))
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
  const ready = await pipeline.runPromise(
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
    await pipeline.runPromise(
      Effect.gen(function* () {
        const spans = yield* Spans
        for (const [number, span] of ready.entries()) {
          yield* spans.record(org_id, {
            trace_id: span.trace_id,
            count: 1,
            whole: true,
            make: () => [span]
          })
          if (number % SPANS_PER_TICK === SPANS_PER_TICK - 1) yield* Effect.promise(nextTick)
        }
      })
    )
    await collector.until(expected)
    // Recording the delivery is part of this side, and must not run in a round of another side.
    while (await pipeline.runPromise(isWaiting)) await pause(5)
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
      if (number % SPANS_PER_TICK === SPANS_PER_TICK - 1) await nextTick()
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
out(line("OpenTelemetry SDK, batch, OTLP/HTTP JSON", they, "µs of CPU per span"))
out(line("OpenTelemetry SDK, the same with gzip", theyToo, "µs of CPU per span"))
out(line("Countersign, queued in the database, gzip", we, "µs of CPU per span"))
const beside = (storeSeconds * 1e6) / (SPANS * (ROUNDS + WARM_UP))
out(`${"PostgreSQL, beside Countersign".padEnd(44)} ${beside.toFixed(1).padStart(10)} µs of CPU per span`)
const times = (values: ReadonlyArray<number>, postgres: number) => median(values) / (median(we) + postgres)
out(atLeast("spans per CPU second, ratio to the SDK", [times(they, 0)], 2, "times"))
out(atLeast("the same, SDK with gzip", [times(theyToo, 0)], 1.5, "times"))
out(line("PostgreSQL included, ratio to the SDK", [times(they, beside)], "times"))
out(line("PostgreSQL included, SDK with gzip", [times(theyToo, beside)], "times"))
await plain.shutdown()
await zipped.shutdown()
await pipeline.dispose()
collector.stop()
await store.dispose()
