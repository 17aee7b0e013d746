import { Array as Arr, Effect, Layer } from "effect"
import { generateTraceId } from "../../../domain/Ids.ts"
import { comparisonSpans } from "../../../domain/telemetry/ComparisonConventions.ts"
import { Spans } from "../../telemetry/Spans.ts"
import { type ExampleCalls, ExampleCompared } from "./ExampleCalls.ts"

/**
 * Records each example of a comparison for which a model was called as a trace, with a span for each call. The trace has no content, whatever
 * the destination exports: an erasure finds the content of runs by their trace ids, and trace ids of comparisons are not stored.
 */
export const layerComparisonSpans: Layer.Layer<ExampleCompared, never, Spans> = Layer.effect(
  ExampleCompared,
  Effect.map(Spans, (spans) => (example: ExampleCalls) => recordCalls(spans, example))
)

const recordCalls = Effect.fnUntraced(function* (
  spans: Spans["Service"],
  { calls, comparison_id, example_id, org_id, task_id }: ExampleCalls
) {
  if (!Arr.isReadonlyArrayNonEmpty(calls)) return
  const trace_id = yield* generateTraceId
  yield* spans.record(org_id, {
    trace_id,
    count: 1 + calls.length,
    whole: true,
    make: () => comparisonSpans({ trace_id, task_id, comparison_id, example_id, calls })
  })
})
