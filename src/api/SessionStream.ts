/** What `GET /v1/agent-sessions/:id/events/stream` sends and is asked with. */
import { Schema, SchemaTransformation, Struct } from "effect"
import { HttpApiSchema, OpenApi } from "effect/http-api"
import { OutcomeStatus, StepDecision } from "../domain/approvals/AgentSession.ts"
import { Approval } from "../domain/approvals/Approval.ts"
import { ApprovalId, RuleId, SessionId, StepId } from "../domain/Ids.ts"
import { SessionEventType } from "../domain/approvals/SessionEvent.ts"
import { Timestamp } from "../domain/Time.ts"

const common = {
  /** Counts the events of one session from 1, without a gap; the `id` of the server-sent event. */
  id: Schema.Int,
  session_id: SessionId,
  occurred_at: Timestamp
}

/** An approval as events show it: without the arguments, which may be secret. */
export const ApprovalSnapshot = Schema.Struct(Struct.omit(Approval.fields, ["arguments"])).annotate({
  identifier: "ApprovalSnapshot"
})
export type ApprovalSnapshot = typeof ApprovalSnapshot.Type

/** A governed-step check was answered. */
export const StepGovernedEvent = Schema.Struct({
  ...common,
  type: Schema.Literal("step:governed"),
  step_id: StepId,
  tool: Schema.String,
  action_class: Schema.String,
  decision: StepDecision,
  reason: Schema.String,
  rule_id: Schema.NullOr(RuleId),
  approval_id: Schema.NullOr(ApprovalId),
  arguments_digest: Schema.String
}).annotate({ identifier: "StepGovernedEvent" })

/** The agent said what became of a step. */
export const ToolOutcomeEvent = Schema.Struct({
  ...common,
  type: Schema.Literal("tool:outcome"),
  step_id: StepId,
  tool: Schema.String,
  status: OutcomeStatus,
  error: Schema.NullOr(Schema.String)
}).annotate({ identifier: "ToolOutcomeEvent" })

/** An approval was asked for, nears its deadline, went to the admins, or is closed (`approval:decided`, by whatever closed it). */
export const ApprovalTransitionedEvent = Schema.Struct({
  ...common,
  type: Schema.Literals([
    "approval:requested",
    "approval:expiring",
    "approval:escalated",
    "approval:decided"
  ]),
  step_id: StepId,
  approval: ApprovalSnapshot
}).annotate({ identifier: "ApprovalTransitionedEvent" })

/** The session was closed. Nothing follows. */
export const SessionClosedEvent = Schema.Struct({
  ...common,
  type: Schema.Literal("session:closed"),
  step_id: Schema.Null
}).annotate({ identifier: "SessionClosedEvent" })

/** One event of a session. */
export const SessionEvent = Schema.Union([
  StepGovernedEvent,
  ToolOutcomeEvent,
  ApprovalTransitionedEvent,
  SessionClosedEvent
]).annotate({ identifier: "SessionEvent" })
export type SessionEvent = typeof SessionEvent.Type

/** The number of the last event that was seen; 0: none was. On the wire decimal digits and nothing else. */
export const EventCursor = Schema.String.check(
  Schema.isPattern(/^(?:0|[1-9]\d{0,15})$/u, { expected: "the number of an event, in decimal digits" })
).pipe(Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString))

/** A server-sent event of the stream (WHATWG HTML, 9.2). */
export const StreamedEvent = Schema.Struct({
  /** The event's number: the cursor to resume after it. */
  id: Schema.String,
  event: SessionEventType,
  data: Schema.fromJsonString(SessionEvent)
})

/** The stream as the contract knows it. */
export const SessionEventStream = HttpApiSchema.StreamSse({ events: StreamedEvent })

/** What the generated document says of the stream beyond its shapes. */
export const streamDocument = OpenApi.annotations({
  summary: "Follow a session",
  description: [
    "Server-sent events of one session, in order, each once. `id` is the event's number, `event` its type, `data` one line of JSON.",
    "Without a cursor it starts with the first event that is kept. With one (`Last-Event-ID`, else `after`) it goes on after that event;",
    "a cursor beyond the newest event is 400, one whose next event is no longer kept is 410 `CURSOR_EXPIRED`.",
    "The stream ends after `session:closed`; asked to go on after that, it answers 204, at which an `EventSource` stops.",
    "It also ends when the key is revoked or expires, when the reader does not read for half a minute, and when the service stops:",
    "connect again with the last `id`. A comment comes every 15 seconds.",
    "A process serves at most 20,000 streams, and 15,000 of one organization; one more is 503."
  ].join(" "),
  transform: (operation) => {
    const answer = operation["responses"]?.["200"]
    // The failure event that the generator describes is never sent: an answer that has begun only ends.
    delete answer?.content?.["text/event-stream"]?.["x-effect-stream"]
    return {
      ...operation,
      responses: {
        ...operation["responses"],
        "200": {
          ...answer,
          description: "The events, as they come",
          headers: {
            "cache-control": { schema: { type: "string", const: "no-store" }, required: true },
            "x-accel-buffering": { schema: { type: "string", const: "no" }, required: true }
          }
        },
        "204": { description: "The session is closed and its last event was seen" }
      }
    }
  }
})
