/**
 * Feedback as it is exported: a span, and what observability tools read as a score.
 *
 * | `scores`     | in the span `svc.feedback`                                                    | besides                                        |
 * | ------------ | ----------------------------------------------------------------------------- | ---------------------------------------------- |
 * | `span`       | `gen_ai.evaluation.*`                                                         |                                                |
 * | `log`        | `gen_ai.evaluation.*`                                                         | the event `gen_ai.evaluation.result` as a log  |
 * | `langfuse`   | `gen_ai.evaluation.*`                                                         | `score-create` events of the ingestion API     |
 * | `phoenix`    | `gen_ai.evaluation.*`                                                         | span annotations of the REST API               |
 * | `braintrust` | `gen_ai.evaluation.*`, `braintrust.scores`, `braintrust.span_attributes.type` |                                                |
 *
 * The conventions make an evaluation an event, which is a log record, below the span that is evaluated (gen-ai-events.md). Events of spans
 * are deprecated, and few tools take logs. So the attributes of the event are attributes of a span of no duration, which each collector of
 * traces takes.
 */
import type { OrgId, TaskId, TraceId } from "../Ids.ts"
import { encodeAscii, encodeEvent, envelope } from "./OtlpJson.ts"
import { type Attributes, type Span, type SpanId, spanIdOf, type TraceContext } from "./Span.ts"
import { callSpanId, exportedTrace, exportSource, runSpanId } from "./SpanConventions.ts"
import type { ScoreFormat, TraceMode } from "./TelemetryDestination.ts"

/** How a destination gets its spans and scores. */
export interface ExportFormat {
  readonly trace: TraceMode
  readonly scores: ScoreFormat
}

/** The formats whose scores are sent in requests of their own. */
export type SeparateScores = Exclude<ScoreFormat, "span" | "braintrust">

/** Whether scores are sent in requests of their own. */
export const hasSeparateScores = (format: ScoreFormat): format is SeparateScores =>
  format !== "span" && format !== "braintrust"

/** The score of a run's answer. */
export interface SubmittedFeedback {
  /** The run's trace id. */
  readonly trace_id: TraceId
  /** The caller's span, which the run's trace links to or continues. */
  readonly caller: TraceContext | null
  /** Calls to a model in the run. The last one is evaluated. */
  readonly provider_calls: number
  readonly feedback_id: string
  /** See `authorOf`. */
  readonly author: string
  readonly task_id: TaskId
  /** -1, 0 or 1. */
  readonly score: number
  /** A score between the values of `score`; null: none was given. */
  readonly score_value: number | null
  /** Null: none was given. */
  readonly score_label: string | null
  readonly source: "api_key" | "feedback_token"
  /** The pseudonym of an end user; null: given without. */
  readonly end_user: string | null
  readonly has_comment: boolean
  readonly has_correction: boolean
  /** Whether its author has withdrawn it. */
  readonly withdrawn: boolean
  readonly at: number
}

/** The name of the evaluation. */
const EVALUATION = "human_feedback"

/** The event of the conventions. */
const EVENT = "gen_ai.evaluation.result"

/** The score as exported, from -1 to 1. */
const valueOf = ({ score, score_value }: SubmittedFeedback): number => score_value ?? score

/** The label of a withdrawn opinion, which has no value. */
const WITHDRAWN = "withdrawn"

const labelOf = ({ score, score_label, withdrawn }: SubmittedFeedback): string =>
  withdrawn ? WITHDRAWN : (score_label ?? (score > 0 ? "correct" : score < 0 ? "incorrect" : "neutral"))

/** The id of the score of an author's opinion about a run: a later opinion has the same, so it replaces the earlier one at the tool. */
const scoreIdOf = ({ author, trace_id }: SubmittedFeedback): string => `${trace_id}.${author}`

/** The span that is evaluated: of the model's last call, or of the run if it has no span of a call. */
const evaluatedSpanId = ({ provider_calls, trace_id }: SubmittedFeedback): SpanId =>
  provider_calls === 0 ? runSpanId(trace_id) : callSpanId(trace_id, provider_calls - 1)

const evaluation = (feedback: SubmittedFeedback): Attributes => ({
  "gen_ai.evaluation.name": EVALUATION,
  "gen_ai.evaluation.score.value": feedback.withdrawn ? undefined : { double: valueOf(feedback) },
  "gen_ai.evaluation.score.label": labelOf(feedback)
})

/** Braintrust's scores are numbers from 0 to 1. */
const braintrust = (feedback: SubmittedFeedback): Attributes => ({
  "braintrust.scores": JSON.stringify({ [EVALUATION]: (valueOf(feedback) + 1) / 2 }),
  "braintrust.span_attributes": JSON.stringify({ name: EVALUATION, type: "score" })
})

/** The last 16 digits of an id are random. The withdrawal is a span of its own. */
const feedbackSpanId = ({ feedback_id, withdrawn }: SubmittedFeedback): SpanId => {
  const digits = feedback_id.slice(-16)
  return spanIdOf(withdrawn ? [...digits].toReversed().join("") : digits)
}

/** Returns the span of feedback, below the span that it evaluates. */
export const feedbackSpan = (feedback: SubmittedFeedback, { scores, trace }: ExportFormat): Span => {
  const { caller, trace_id } = exportedTrace(feedback, trace)
  return {
    trace_id,
    span_id: feedbackSpanId(feedback),
    parent_span_id: evaluatedSpanId(feedback),
    name: "svc.feedback",
    kind: "internal",
    start: feedback.at,
    end: feedback.at,
    attributes: {
      "svc.feedback.id": feedback.feedback_id,
      "svc.feedback.score_id": scoreIdOf(feedback),
      "svc.feedback.score": feedback.withdrawn ? undefined : feedback.score,
      "svc.feedback.source": feedback.source,
      "svc.feedback.end_user": feedback.end_user ?? undefined,
      "svc.feedback.has_comment": feedback.has_comment,
      "svc.feedback.has_correction": feedback.has_correction,
      "svc.task.id": feedback.task_id,
      ...evaluation(feedback),
      ...(scores === "braintrust" && !feedback.withdrawn ? braintrust(feedback) : {})
    },
    ...(caller === null ? {} : { joined: { flags: caller.flags, isParentRemote: false } })
  }
}

/** Encodes the score for a request of its own, in ASCII. By its id a tool has the latest opinion of an author once. */
export const encodeScore = (
  feedback: SubmittedFeedback,
  scores: SeparateScores,
  trace: TraceMode
): string => {
  const { caller, trace_id } = exportedTrace(feedback, trace)
  const { at, feedback_id, task_id } = feedback
  switch (scores) {
    case "log":
      return encodeEvent({
        name: EVENT,
        at,
        trace_id,
        span_id: evaluatedSpanId(feedback),
        flags: caller?.flags ?? OWN_FLAGS,
        attributes: {
          ...evaluation(feedback),
          "svc.feedback.id": feedback_id,
          "svc.feedback.score_id": scoreIdOf(feedback),
          "svc.task.id": task_id
        }
      })
    case "langfuse":
      return encodeAscii({
        // Of the event: the same one is stored once.
        id: feedback.withdrawn ? `${feedback_id}.${WITHDRAWN}` : feedback_id,
        timestamp: new Date(at).toISOString(),
        type: "score-create",
        body: {
          id: scoreIdOf(feedback),
          traceId: trace_id,
          // A trace of its own is the run; in the caller's trace the run is an observation.
          ...(caller === null ? {} : { observationId: runSpanId(feedback.trace_id) }),
          name: EVALUATION,
          // A score has a value. A category is in no mean.
          ...(feedback.withdrawn
            ? { value: WITHDRAWN, dataType: "CATEGORICAL" }
            : { value: valueOf(feedback), dataType: "NUMERIC" }),
          metadata: { task_id, label: labelOf(feedback) }
        }
      })
    case "phoenix":
      return encodeAscii({
        span_id: runSpanId(feedback.trace_id),
        name: EVALUATION,
        annotator_kind: "HUMAN",
        result: {
          label: labelOf(feedback),
          ...(feedback.withdrawn ? {} : { score: valueOf(feedback) })
        },
        metadata: { feedback_id, task_id },
        identifier: scoreIdOf(feedback)
      })
  }
}

/** Sampled, with a random trace id. */
const OWN_FLAGS = 0b11

/** Returns the text before and after the scores of one request. */
export const scoreEnvelope = (org_id: OrgId, scores: SeparateScores): readonly [string, string] => {
  switch (scores) {
    case "log":
      return envelope(exportSource(org_id), "logRecords")
    case "langfuse":
      return [`{"batch":[`, "]}"]
    case "phoenix":
      return [`{"data":[`, "]}"]
  }
}

/** The paths of traces and of scores, at the end of a URL. */
const paths: Readonly<Record<SeparateScores, readonly [traces: string, scores: string]>> = {
  log: ["/v1/traces", "/v1/logs"],
  langfuse: ["/api/public/otel/v1/traces", "/api/public/ingestion"],
  phoenix: ["/v1/traces", "/v1/span_annotations"]
}

/** The path that a destination's URL must end with for these scores. */
export const tracesPath = (scores: SeparateScores): string => paths[scores][0]

/** Returns the URL that scores are sent to, beside that of traces; undefined if the path of traces does not show where. */
export const scoresUrl = (tracesUrl: string, scores: SeparateScores): string | undefined => {
  const [traces, own] = paths[scores]
  const [path = ""] = tracesUrl.split("?", 1)
  return path.endsWith(traces)
    ? path.slice(0, -traces.length) + own + tracesUrl.slice(path.length)
    : undefined
}
