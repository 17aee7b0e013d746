import { DateTime, Schema, Struct } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { Actor } from "../identity/Principal.ts"
import { EventId, OrgId } from "../Ids.ts"
import { timestamp, type Timestamp } from "../Time.ts"
import { Approval } from "./Approval.ts"

export const ApprovalEventType = documentedEnum({
  "approval.requested": "A step waits for a decision.",
  "approval.expiring": "The open window is about to end.",
  "approval.escalated": "The reviewers' window ended; the admins' escalation window is open.",
  "approval.vote_recorded": "A person approved the step, and its quorum needs more approvals.",
  "approval.approved": "The step was approved: its quorum was reached.",
  "approval.rejected": "A person rejected the step.",
  "approval.expired":
    "The approval closed without a decision: its last window ended, or its session was closed."
})
export type ApprovalEventType = typeof ApprovalEventType.Type

/** Every event type, in the order of an approval's life. */
export const approvalEventTypes: ReadonlyArray<ApprovalEventType> = ApprovalEventType.literals

/** The event types that an endpoint subscribes to by default: a later type widens no existing subscription. */
export const defaultEventTypes: ReadonlyArray<ApprovalEventType> = approvalEventTypes.filter(
  (type) => type !== "approval.vote_recorded"
)

/** A transition of an approval: the event that reports it, and the approval right after it. */
export interface ApprovalTransitionEvent {
  readonly event: ApprovalEventType
  readonly approval: Approval
}

/** Every event type that is delivered to webhook endpoints: approval events and the test event. */
export type WebhookEventType = ApprovalEventType | "test"

/**
 * Every event type that a webhook endpoint can receive: delivered events, and the challenge that verifies the endpoint.
 */
export type ReceivedEventType = WebhookEventType | "verification"

/** An event of an approval, as `approvalEventBody` writes it. */
export const ApprovalEvent = Schema.Struct({
  id: EventId.annotateKey({ description: "The event's ID, the same in every delivery." }),
  type: ApprovalEventType.annotateKey({ description: "The event's type." }),
  org_id: OrgId.annotateKey({ description: "The organization's ID." }),
  occurred_at: timestamp("When it happened."),
  approval: Schema.Struct({
    ...Struct.pick(Approval.fields, [
      "approval_id",
      "session_id",
      "step_id",
      "task_id",
      "status",
      "stage",
      "requested_at",
      "review_deadline_at",
      "escalation_deadline_at",
      "expires_at",
      "approvals_required",
      "approvals_given"
    ]),
    decided_at: Schema.optionalKey(timestamp("When the person decided. Absent unless one did.")),
    decided_by: Schema.optionalKey(Actor).annotateKey({
      description: "The API key that decided. Absent unless a person did."
    })
  }).annotateKey({
    description: "The approval when the event was recorded, without the arguments of its step."
  })
}).annotate({
  identifier: "ApprovalEvent",
  description: "A transition of an approval, as webhooks report it."
})
export type ApprovalEvent = typeof ApprovalEvent.Type

/**
 * The body of an event: the exact text that every attempt and replay signs and sends. It shows the approval as it was when the event was
 * recorded. It never contains the step's arguments. `decided_at` and `decided_by` are present only if a person decided.
 */
export const approvalEventBody = (event: {
  readonly id: EventId
  readonly type: ApprovalEventType
  readonly org_id: OrgId
  readonly occurred_at: Timestamp
  readonly approval: Approval
}): string => {
  const { approval } = event
  return JSON.stringify({
    id: event.id,
    type: event.type,
    org_id: event.org_id,
    occurred_at: DateTime.formatIso(event.occurred_at),
    approval: {
      approval_id: approval.approval_id,
      session_id: approval.session_id,
      step_id: approval.step_id,
      task_id: approval.task_id,
      status: approval.status,
      stage: approval.stage,
      requested_at: DateTime.formatIso(approval.requested_at),
      review_deadline_at: DateTime.formatIso(approval.review_deadline_at),
      escalation_deadline_at:
        approval.escalation_deadline_at === null ? null : DateTime.formatIso(approval.escalation_deadline_at),
      expires_at: DateTime.formatIso(approval.expires_at),
      approvals_required: approval.approvals_required,
      approvals_given: approval.approvals_given,
      ...(approval.decision_source === "human" && approval.decided_at !== null
        ? { decided_at: DateTime.formatIso(approval.decided_at), decided_by: approval.decided_by }
        : {})
    }
  })
}

/** The body of a test event: the members of every event, with `approval` null. */
export const testEventBody = (event: {
  readonly id: EventId
  readonly org_id: OrgId
  readonly occurred_at: Timestamp
}): string =>
  JSON.stringify({
    id: event.id,
    type: "test" satisfies WebhookEventType,
    org_id: event.org_id,
    occurred_at: DateTime.formatIso(event.occurred_at),
    approval: null
  })
