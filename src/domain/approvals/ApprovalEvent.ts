import { DateTime, Schema } from "effect"
import type { Approval } from "./Approval.ts"
import type { EventId, OrgId } from "../Ids.ts"
import type { Timestamp } from "../Time.ts"

/** The six events of an approval's life that an endpoint can subscribe to. */
export const ApprovalEventType = Schema.Literals([
  "approval.requested",
  "approval.expiring",
  "approval.escalated",
  "approval.approved",
  "approval.rejected",
  "approval.expired"
])
export type ApprovalEventType = typeof ApprovalEventType.Type

/** Every event type, in the order of the contract. */
export const approvalEventTypes: ReadonlyArray<ApprovalEventType> = ApprovalEventType.literals

/** A moment of an approval: the event it is told by, and the approval as it stood then. */
export interface ApprovalTransitionEvent {
  readonly event: ApprovalEventType
  readonly approval: Approval
}

/** What may be sent to an endpoint: an approval's event, or its owner's test of it. */
export type WebhookEventType = ApprovalEventType | "test"

/**
 * The body of an event: the exact text that is signed, stored and sent, on every attempt and replay. The approval is as it
 * stood when the event was recorded. Arguments are never in it; `decided_at` and `decided_by` are absent from events that no
 * person caused.
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
      ...(approval.decision_source === "human" && approval.decided_at !== null
        ? { decided_at: DateTime.formatIso(approval.decided_at), decided_by: approval.decided_by }
        : {})
    }
  })
}

/** The body of a test: the keys of every event, and no approval. */
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
