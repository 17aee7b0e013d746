/** The server-sent events of `GET /v1/agent-sessions/:id/events/stream`. */
import { Schema, Struct } from "effect"
import { HttpApiSchema, OpenApi } from "effect/http-api"
import {
  OutcomeStatus,
  StepDecision,
  StepDecisionSource,
  StepReviewer
} from "../domain/approvals/AgentSession.ts"
import { documentedEnum } from "../domain/documentedEnum.ts"
import { Approval, argumentMembers } from "../domain/approvals/Approval.ts"
import { ApprovalMessage } from "../domain/approvals/ApprovalMessage.ts"
import { ApprovalId, ClaimId, GrantId, RuleId, SessionId, StepId } from "../domain/Ids.ts"
import { SessionEventType } from "../domain/approvals/SessionEvent.ts"
import { Actor } from "../domain/identity/Principal.ts"
import { timestamp } from "../domain/Time.ts"
import { numberCursor } from "./Pagination.ts"

const common = {
  id: Schema.Int.annotateKey({
    description:
      "Number of the event: 1 for the session's first, without gaps. Also the `id` of the server-sent event."
  }),
  session_id: SessionId.annotateKey({ description: "The agent session." }),
  occurred_at: timestamp("When it happened.")
}

const stepId = StepId.annotateKey({ description: "The step." })

export const ApprovalSnapshot = Schema.Struct(Struct.omit(Approval.fields, argumentMembers)).annotate({
  identifier: "ApprovalSnapshot",
  description:
    "An approval without the arguments of its step and of its proposal, and without summaries of them, which can be secret."
})
export type ApprovalSnapshot = typeof ApprovalSnapshot.Type

export const StepGovernedEvent = Schema.Struct({
  ...common,
  type: Schema.Literal("step:governed").annotateKey({ description: "Always `step:governed`." }),
  step_id: stepId,
  tool: Schema.String.annotateKey({ description: "The tool that the agent wants to use." }),
  action_class: Schema.String.annotateKey({ description: "The class of action." }),
  decision: StepDecision.annotateKey({ description: "The decision." }),
  reason: Schema.String.annotateKey({ description: "Why, in one sentence." }),
  rule_id: Schema.NullOr(RuleId).annotateKey({ description: "The rule that matched. Null if none did." }),
  approval_id: Schema.NullOr(ApprovalId).annotateKey({
    description:
      "The approval that the step waits for. Null if a rule, a standing grant or a reviewer model decided."
  }),
  grant_id: Schema.NullOr(GrantId).annotateKey({
    description: "The standing grant that allows the step; null if none does."
  }),
  reviewer: Schema.optionalKey(StepReviewer).annotateKey({
    description: "The reviewer model that decided. Present only if `decision_source` is `model`."
  }),
  decision_source: Schema.NullOr(StepDecisionSource).annotateKey({
    description: "What decided. Null while the decision is `pending`."
  }),
  arguments_digest: Schema.String.annotateKey({
    description: "SHA-256 of the step's content, as 64 lowercase hex digits."
  })
}).annotate({ identifier: "StepGovernedEvent", description: "A governed step was answered." })

export const ToolOutcomeEvent = Schema.Struct({
  ...common,
  type: Schema.Literal("tool:outcome").annotateKey({ description: "Always `tool:outcome`." }),
  step_id: stepId,
  tool: Schema.String.annotateKey({ description: "The tool that was used." }),
  status: OutcomeStatus.annotateKey({ description: "How the tool ended." }),
  error: Schema.NullOr(Schema.String).annotateKey({
    description: "The error that the agent reported. Null if it reported none."
  }),
  claim_id: Schema.optionalKey(ClaimId).annotateKey({
    description: "The claim of the execution. It and the members below are absent if nobody claimed the step."
  }),
  late: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "Whether the agent reported it after the claim had ended, so that it was unknown until then."
  }),
  resolved_by: Schema.optionalKey(Schema.NullOr(Actor)).annotateKey({
    description: "The API key of the person who found the outcome. Null if the agent reported it."
  })
}).annotate({ identifier: "ToolOutcomeEvent", description: "The outcome of a step was recorded." })

export const ToolExecutionEvent = Schema.Struct({
  ...common,
  type: documentedEnum({
    "tool:claimed": "An agent claimed a step, to execute it.",
    "tool:unknown": "The claim ended without an outcome: it is unknown whether the step was executed.",
    "tool:retry_allowed": "A person allowed another attempt. The next claim gets it."
  }).annotateKey({ description: "What happened." }),
  step_id: stepId,
  tool: Schema.String.annotateKey({ description: "The tool." }),
  claim_id: ClaimId.annotateKey({ description: "The claim." }),
  attempt: Schema.Int.annotateKey({ description: "1 for the first claim of the step." }),
  claimed_by: Actor.annotateKey({ description: "The API key that claimed the step." }),
  expires_at: timestamp("When the claim's lease ends or ended.")
}).annotate({
  identifier: "ToolExecutionEvent",
  description: "A step was claimed, its claim ended without an outcome, or a person allowed another attempt."
})

export const ApprovalTransitionedEvent = Schema.Struct({
  ...common,
  type: documentedEnum({
    "approval:requested": "A step waits for a decision.",
    "approval:expiring": "The open review window is about to end.",
    "approval:escalated": "The admins' escalation window is open.",
    "approval:vote_recorded": "A person approved, and the quorum needs more approvals.",
    "approval:decided": "The approval closed: by a decision, a timeout, or because its session was closed."
  }).annotateKey({ description: "What happened." }),
  step_id: stepId,
  approval: ApprovalSnapshot.annotateKey({ description: "The approval right after it happened." })
}).annotate({
  identifier: "ApprovalTransitionedEvent",
  description:
    "An approval was requested, is about to expire, was escalated, got one of several approvals, or closed."
})

export const ApprovalMessageEvent = Schema.Struct({
  ...common,
  type: Schema.Literal("approval:message").annotateKey({ description: "Always `approval:message`." }),
  step_id: stepId,
  approval_id: ApprovalId.annotateKey({ description: "The approval that the message is about." }),
  message: ApprovalMessage.annotateKey({ description: "The message." })
}).annotate({
  identifier: "ApprovalMessageEvent",
  description: "A reviewer or the agent sent a message about a pending approval."
})

export const SessionClosedEvent = Schema.Struct({
  ...common,
  type: Schema.Literal("session:closed").annotateKey({ description: "Always `session:closed`." }),
  step_id: Schema.Null.annotateKey({ description: "Always null." })
}).annotate({ identifier: "SessionClosedEvent", description: "The session was closed. The last event." })

export const SessionEvent = Schema.Union([
  StepGovernedEvent,
  ToolOutcomeEvent,
  ToolExecutionEvent,
  ApprovalTransitionedEvent,
  ApprovalMessageEvent,
  SessionClosedEvent
]).annotate({ identifier: "SessionEvent", description: "One event of a session. `type` tells which." })
export type SessionEvent = typeof SessionEvent.Type

/** The number of the last event that the client received; 0 if none. */
export const eventCursor = (description: string) =>
  numberCursor(description, "the number of an event, in decimal digits")

/** A server-sent event of the stream (WHATWG HTML, 9.2). */
export const StreamedEvent = Schema.Struct({
  id: Schema.String.annotateKey({ description: "The event's number: the cursor to resume after it." }),
  event: SessionEventType.annotateKey({ description: "The event's type." }),
  data: Schema.fromJsonString(SessionEvent).pipe(
    Schema.annotateEncoded({ description: "The event as JSON, on one line." })
  )
}).annotate({ description: "One server-sent event." })

/** The response body of the stream. */
export const SessionEventStream = HttpApiSchema.StreamSse({ events: StreamedEvent })

/** The stream's part of the API reference. */
export const streamDocument = OpenApi.annotations({
  identifier: "streamSessionEvents",
  summary: "Follow a session's events",
  description: [
    "Streams the events of one session as server-sent events, in order, each once. `id` is the event's number, `event` its type, `data` one line of JSON.",
    "Without a cursor the stream starts with the first retained event. With `last-event-id`, or else `after`, it resumes after that event.",
    "A cursor beyond the newest event gets 400; if the next event has been removed by retention, 410 `CURSOR_EXPIRED`.",
    "The stream ends after `session:closed`. Resuming after that gets 204, at which an `EventSource` stops reconnecting.",
    "It also ends when the API key is revoked or expires, when the client does not read for 30 seconds, and when the service shuts down:",
    "reconnect with the last `id`. If the session is deleted, it ends within seconds, and reconnecting gets 404. A comment is sent as heartbeat every 15 seconds.",
    "A replica serves at most 20,000 streams, 15,000 per organization; another gets 503."
  ].join(" "),
  transform: (operation) => {
    const answer = operation["responses"]?.["200"]
    // The generator describes a failure event, which is never sent: a stream that has begun only ends.
    const { data: _, ...properties } = answer?.content?.["text/event-stream"]?.schema?.properties ?? {}
    return {
      ...operation,
      responses: {
        ...operation["responses"],
        "200": {
          ...answer,
          description: "The events, as they happen.",
          content: {
            "text/event-stream": {
              schema: {
                type: "string",
                description:
                  "Server-sent events. Each has `id`, `event` and `data`: a `SessionEvent` as JSON on one line.",
                contentMediaType: "text/event-stream",
                contentSchema: {
                  type: "array",
                  items: {
                    type: "object",
                    description: "One server-sent event.",
                    properties: {
                      ...properties,
                      data: {
                        type: "string",
                        description: "The event as JSON, on one line.",
                        contentMediaType: "application/json",
                        contentSchema: { $ref: "#/components/schemas/SessionEvent" }
                      }
                    },
                    required: ["id", "event", "data"]
                  }
                }
              }
            }
          },
          headers: {
            "cache-control": {
              description: "Always `no-store`.",
              schema: { type: "string", const: "no-store" },
              required: true
            },
            "x-accel-buffering": {
              description: "Always `no`: a proxy must not buffer the stream.",
              schema: { type: "string", const: "no" },
              required: true
            }
          }
        },
        "204": { description: "The session is closed and the cursor is its last event." }
      }
    }
  }
})
