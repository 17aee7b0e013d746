import { Effect, Layer, Option, Schema } from "effect"
import { REDACTED } from "../../../domain/redaction/Redaction.ts"
import { parseTraceContext } from "../../../domain/telemetry/TraceContext.ts"
import type { Message } from "../../../domain/telemetry/messages.ts"
import {
  type CompletedProviderCall,
  type CompletedRun,
  inputMessages,
  runSpans
} from "../../../domain/telemetry/SpanConventions.ts"
import { toCompletedCall } from "../Providers/toCompletedCall.ts"
import { toReportedCall } from "./toReportedCall.ts"
import { RunFinished } from "../Runs.ts"
import { Spans } from "../../telemetry/Spans.ts"
import type { FinishedRun } from "./FinishedRun.ts"

/** Records each run as a span, with a child span for each call to a model, also for the one that a client reported. */
export const layerRunSpans: Layer.Layer<RunFinished, never, Spans> = Layer.effect(
  RunFinished,
  Effect.map(Spans, (spans) => (run: FinishedRun) => recordRun(spans, run))
)

const recordRun = (spans: Spans["Service"], run: FinishedRun): Effect.Effect<void> => {
  const completed = toCompletedRun(run)
  // Retried calls have the same messages, which are redacted once.
  const prompts = [...new Set(run.calls.map(({ messages }) => messages))]
  const promptOf = run.calls.map(({ messages }) => `prompt ${prompts.indexOf(messages)}`)
  return spans.record(run.org_id, {
    trace_id: run.trace_id,
    count: 1 + completed.calls.length,
    whole: true,
    caller: completed.caller,
    content: {
      input: run.input,
      ...(run.answer === null ? {} : { answer: run.answer }),
      ...Object.fromEntries(prompts.map((messages, index) => [`prompt ${index}`, messages.map(toContent)]))
    },
    make: (_at, content, { trace }) =>
      runSpans(
        {
          ...completed,
          calls: completed.calls.map((call, index) => ({
            ...call,
            // Of a client's call, only the input is known.
            prompt:
              completed.source === "logged"
                ? inputMessages(content["input"])
                : toMessages(content[promptOf[index] ?? ""])
          })),
          input: content["input"],
          answer: content["answer"]
        },
        trace
      )
  })
}

const toContent = ({ content, role }: Message): { readonly role: string; readonly content: string } => ({
  role,
  content
})

const decodeMessages = Schema.decodeUnknownOption(
  Schema.Array(Schema.Struct({ role: Schema.String, content: Schema.String }))
)

/** The messages of a prompt from its redacted content, which is a single text if the messages were too long to be exported. */
const toMessages = (content: Schema.Json | undefined): ReadonlyArray<Message> | undefined =>
  content === undefined
    ? undefined
    : Option.getOrElse(decodeMessages(content), () => [
        { role: "user", content: typeof content === "string" ? content : REDACTED }
      ])

/** The attributes that are exported with and without content. */
const toCompletedRun = (
  run: FinishedRun
): Omit<CompletedRun, "input" | "answer" | "calls"> & {
  readonly calls: ReadonlyArray<Omit<CompletedProviderCall, "prompt">>
} => {
  const reported = toReportedCall(run)
  const calls =
    reported === undefined ? run.calls.map((call) => toCompletedCall(run.provider, call)) : [reported]
  const created = run.created_at.epochMilliseconds
  return {
    trace_id: run.trace_id,
    task_id: run.task_id,
    task_name: run.task_name,
    release_id: run.release_id,
    dataset_id: run.dataset_id,
    source: run.source,
    session_id: run.session_id,
    // A client's call ended before its answer was logged.
    start: Math.min(created, ...calls.map(({ start }) => start)),
    end: created + run.duration_ms,
    error_type: run.failure === null ? null : "provider_failed",
    caller: parseTraceContext(run.caller_traceparent),
    calls
  }
}
