import { DateTime, type Effect } from "effect"
import type { OrgId } from "../../../domain/Ids.ts"
import type { FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import {
  encodeScore,
  feedbackSpan,
  type SubmittedFeedback
} from "../../../domain/telemetry/FeedbackConventions.ts"
import { parseTraceContext } from "../../../domain/telemetry/TraceContext.ts"
import type { Spans } from "../../telemetry/Spans.ts"
import type { EvaluatedRun } from "./rows.ts"

/** Records feedback, or its withdrawal, as a span in the trace of its run and as a score, after the commit and without its content. */
export const recordFeedbackSpan = (
  spans: Spans["Service"],
  org_id: OrgId,
  record: FeedbackRecord,
  author: string,
  { caller_traceparent, provider_calls }: EvaluatedRun
): Effect.Effect<void> => {
  const feedback: SubmittedFeedback = {
    trace_id: record.inference_log_id,
    caller: parseTraceContext(caller_traceparent),
    provider_calls,
    feedback_id: record.id,
    author,
    task_id: record.task_id,
    score: record.score,
    score_value: record.score_value,
    score_label: record.score_label,
    source: record.source,
    end_user: record.end_user,
    has_comment: record.comment !== null,
    has_correction: record.correction !== null,
    withdrawn: record.withdrawn_at !== null,
    at: DateTime.toEpochMillis(record.withdrawn_at ?? record.created_at)
  }
  return spans.record(org_id, {
    trace_id: feedback.trace_id,
    count: 1,
    caller: feedback.caller,
    score: (scores, trace) => encodeScore(feedback, scores, trace),
    make: (_at, _content, format) => [feedbackSpan(feedback, format)]
  })
}
