/** The spans of comparisons: a trace per example, with a span for each call to a model. They have no content. */
import type { ComparisonId, ExampleId, TaskId, TraceId } from "../Ids.ts"
import type { Attributes, Span } from "./Span.ts"
import {
  callAttributes,
  callName,
  callSpanId,
  type CompletedProviderCall,
  runSpanId
} from "./SpanConventions.ts"

/** A completed call to a model in a comparison. */
export interface ComparisonCall extends Omit<CompletedProviderCall, "prompt"> {
  /** The side whose answer the call is for. */
  readonly side: "candidate" | "live"
  /** `answer`: the call answers the example. `judge`: it judges the side's answer. */
  readonly role: "answer" | "judge"
}

/** An example of a comparison, with the calls that were made for it: at least one. */
export interface ComparedExampleCalls {
  readonly trace_id: TraceId
  readonly task_id: TaskId
  readonly comparison_id: ComparisonId
  readonly example_id: ExampleId
  readonly calls: readonly [ComparisonCall, ...ReadonlyArray<ComparisonCall>]
}

/** Returns the span of an example, from its first call to its last, and one for each call. */
export const comparisonSpans = (example: ComparedExampleCalls): ReadonlyArray<Span> => {
  const { calls, trace_id } = example
  const parent = runSpanId(trace_id)
  const shared: Attributes = {
    "svc.task.id": example.task_id,
    "svc.comparison.id": example.comparison_id,
    "svc.example.id": example.example_id
  }
  return [
    {
      trace_id,
      span_id: parent,
      parent_span_id: null,
      name: "svc.comparison",
      kind: "internal",
      start: Math.min(...calls.map(({ start }) => start)),
      end: Math.max(...calls.map(({ end }) => end)),
      attributes: shared
    },
    ...calls.map((call, index): Span => ({
      trace_id,
      span_id: callSpanId(trace_id, index),
      parent_span_id: parent,
      name: callName(call),
      kind: "client",
      start: call.start,
      end: call.end,
      attributes: {
        ...callAttributes(call),
        ...shared,
        "svc.comparison.side": call.side,
        "svc.comparison.role": call.role,
        "error.type": call.error_type ?? undefined
      },
      failed: call.error_type !== null
    }))
  ]
}
