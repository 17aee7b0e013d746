import { Effect, Layer } from "effect"
import { genAiProviderName } from "../../../domain/telemetry/genAiProviderName.ts"
import { TraceId } from "../../../domain/Ids.ts"
import { type SpanLink, spanIdOf } from "../../../domain/telemetry/Span.ts"
import {
  type CompletedProviderCall,
  type CompletedRun,
  runSpans
} from "../../../domain/telemetry/SpanConventions.ts"
import type { ProviderCall } from "../Providers.ts"
import { RunFinished } from "../Runs.ts"
import { Spans } from "../../telemetry/Spans.ts"
import type { FinishedRun } from "./FinishedRun.ts"

/** Records each run as a span, with a child span for each call to a provider. */
export const layerRunSpans: Layer.Layer<never, never, Spans> = Layer.effect(
  RunFinished,
  Effect.map(Spans, (spans) => (run: FinishedRun) => recordRun(spans, run))
)

const recordRun = (spans: Spans["Service"], run: FinishedRun): Effect.Effect<void> => {
  const completed = toCompletedRun(run)
  return spans.record(run.org_id, {
    trace_id: run.trace_id,
    count: 1 + run.calls.length,
    whole: true,
    content: { input: run.input, ...(run.answer === null ? {} : { answer: run.answer }) },
    make: (_at, { answer, input }) => runSpans({ ...completed, input, answer })
  })
}

/** The attributes that are exported with and without content. */
const toCompletedRun = (run: FinishedRun): Omit<CompletedRun, "input" | "answer"> => {
  const start = run.created_at.epochMilliseconds
  return {
    trace_id: run.trace_id,
    task_id: run.task_id,
    task_name: run.task_name,
    release_id: run.release_id,
    dataset_id: run.dataset_id,
    source: run.source,
    session_id: run.session_id,
    start,
    end: start + run.duration_ms,
    error_type: run.failure === null ? null : "provider_failed",
    caller: run.caller_traceparent === null ? null : linkOf(run.caller_traceparent),
    calls: run.calls.map((call) => toCompletedCall(run.provider, call))
  }
}

/** The caller's span, from a validated `traceparent`: version, trace id, span id, flags. */
const linkOf = (traceparent: string): SpanLink => ({
  trace_id: TraceId.make(traceparent.slice(3, 35), { disableChecks: true }),
  span_id: spanIdOf(traceparent.slice(36, 52))
})

const toCompletedCall = (provider: FinishedRun["provider"], call: ProviderCall): CompletedProviderCall => ({
  provider: genAiProviderName(provider),
  model: provider.model,
  start: call.started_at.epochMilliseconds,
  end: call.started_at.epochMilliseconds + call.duration_ms,
  input_tokens: call.usage.input_tokens,
  output_tokens: call.usage.output_tokens,
  error_type: errorType(call)
})

/** The low-cardinality `error.type` of the conventions: the HTTP status if it is an error, else the kind of failure. */
const errorType = ({ failure, http_status }: ProviderCall): string | null => {
  if (failure === null) return null
  if (http_status === null) return "no_answer"
  return http_status >= 300 ? String(http_status) : "invalid_answer"
}
