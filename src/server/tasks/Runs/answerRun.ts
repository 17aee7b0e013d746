import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { NoExample, NoNearExample, ProviderFailed } from "../../../api/Problems.ts"
import type { OrgId, TaskId, TraceId } from "../../../domain/Ids.ts"
import { type Provider, sumUsage } from "../../../domain/tasks/Provider.ts"
import { parseTraceparent } from "../../../domain/tasks/Run.ts"
import { callSpanId, exportedTrace } from "../../../domain/telemetry/SpanConventions.ts"
import type { TraceMode } from "../../../domain/telemetry/TelemetryDestination.ts"
import { formatTraceparent, parseTraceContext } from "../../../domain/telemetry/TraceContext.ts"
import type { NoAnswer, ProviderAnswer, ProviderCall } from "../Providers.ts"
import { readSchemas } from "../Tasks/rows.ts"
import type { RunHandle } from "./runLog.ts"

/** Answers a run with the provider, and logs the outcome: success, failure or interruption. */
export const answerRun = (
  run: RunHandle,
  answer: (onCall: (call: ProviderCall) => void) => Effect.Effect<ProviderAnswer, NoAnswer>
) =>
  Effect.uninterruptibleMask((restore) => {
    const calls: Array<ProviderCall> = []
    return restore(answer((call) => calls.push(call))).pipe(
      Effect.onInterrupt(() =>
        run.logFailure("The caller disconnected before the answer was ready.", {
          // Calls that completed before the interruption were billed.
          usage: sumUsage(calls.map(({ usage }) => usage)),
          calls,
          examples: []
        })
      ),
      Effect.flatMap(run.logProviderAnswer),
      Effect.catchTag("NoAnswer", (failure) =>
        Effect.andThen(
          run.logFailure(failure.detail, failure),
          Effect.fail(
            failure.reason === "no_near_example"
              ? new NoNearExample({ detail: failure.detail, trace_id: run.trace_id })
              : failure.reason === "no_example"
                ? new NoExample({ detail: failure.detail, trace_id: run.trace_id })
                : new ProviderFailed({
                    detail: failure.detail,
                    reason: failure.reason,
                    trace_id: run.trace_id
                  })
          )
        )
      )
    )
  })

/** Reads the schema that a model gets, before the run begins: a task that was deleted by now has no run. */
export const answerSchemaFor = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  provider: Provider
) =>
  provider.kind === "examples"
    ? Effect.succeed(Effect.die(new Error("A provider of stored examples has read the answer schema")))
    : Effect.map(readSchemas(sql, org_id, task_id), ({ answer_schema }) => Effect.succeed(answer_schema))

/** Makes the `traceparent` of each call of a run, in the trace that the run is exported in. `traceparent` is the caller's. */
export const callTraceparent = (
  trace_id: TraceId,
  traceparent: string | undefined,
  mode: TraceMode | null
): ((call: number) => string) => {
  const caller = parseTraceContext(parseTraceparent(traceparent))
  return (call) => {
    const trace = exportedTrace({ trace_id, caller }, mode ?? "own")
    return formatTraceparent(trace.trace_id, callSpanId(trace_id, call), trace.caller?.flags)
  }
}
