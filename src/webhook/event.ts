import { refuse, type Refusal } from "./refusal.ts"

/** The status of an approval. `expired` means that it closed without a decision: its deadline passed, or its session was closed. */
export type ApprovalStatus = "pending" | "approved" | "rejected" | "expired"

/** Whose review window is open. An escalated approval is pending in stage `admin`. */
export type ApprovalStage = "reviewer" | "admin"

/** The API key that decided: its id, and its name at that time. */
export interface Decider {
  readonly id: string
  readonly name: string
}

/**
 * An approval at the time of the event. Times are RFC 3339 in UTC. Read the current state from `GET /v1/agent-approvals/:id`: an event
 * never replaces the agent's own request for the governed step.
 */
export interface ApprovalSnapshot<Status extends ApprovalStatus = ApprovalStatus> {
  /** The approval's ID: `apr_` and 32 hex digits. */
  readonly approval_id: string
  /** The agent session of the step. */
  readonly session_id: string
  /** The step, by the ID that the agent chose. */
  readonly step_id: string
  /** The task of the step; null if it names none. */
  readonly task_id: string | null
  readonly status: Status
  readonly stage: ApprovalStage
  /** When the agent submitted the step. */
  readonly requested_at: string
  /** End of the reviewers' window. */
  readonly review_deadline_at: string
  /** End of the admins' window; null if the rule has no escalation. */
  readonly escalation_deadline_at: string | null
  /** End of the current window. */
  readonly expires_at: string
  /** How many approvals the step needs. 1 in events of a service before quorums. */
  readonly approvals_required: number
  /** How many of them were given. */
  readonly approvals_given: number
}

/** An approval that a person decided. */
export interface DecidedApproval<
  Status extends "approved" | "rejected" = "approved" | "rejected"
> extends ApprovalSnapshot<Status> {
  /** When the person decided. */
  readonly decided_at: string
  readonly decided_by: Decider
}

interface EventOf<Type extends string, Approval> {
  /** The same for all attempts and replays: deduplicate by it. */
  readonly id: string
  readonly type: Type
  /** The organization of the approval. */
  readonly org_id: string
  /** When it happened, in RFC 3339. */
  readonly occurred_at: string
  /** The approval at that time; null for a test event. */
  readonly approval: Approval
}

/** A challenge, sent on request to verify the endpoint. Respond with `verification` as JSON; `handler` and `nodeHandler` do. */
export interface VerificationEvent extends EventOf<"verification", null> {
  readonly verification: { readonly challenge: string }
}

/** An event, discriminated by `type`: a notification, or a challenge that verifies the endpoint. */
export type WebhookEvent = NotificationEvent | VerificationEvent

/** An event that a handler's `onEvent` gets, discriminated by `type`. `test` is sent on request to try an endpoint. */
export type NotificationEvent =
  | EventOf<"approval.requested", ApprovalSnapshot<"pending">>
  | EventOf<"approval.expiring", ApprovalSnapshot<"pending">>
  | EventOf<"approval.escalated", ApprovalSnapshot<"pending">>
  | EventOf<"approval.vote_recorded", ApprovalSnapshot<"pending">>
  | EventOf<"approval.approved", DecidedApproval<"approved">>
  | EventOf<"approval.rejected", DecidedApproval<"rejected">>
  | EventOf<"approval.expired", ApprovalSnapshot<"expired">>
  | EventOf<"test", null>

/** The event types. */
export type WebhookEventType = WebhookEvent["type"]

type EventRefusal = Refusal<"malformed_event" | "unknown_event_type">

type Fields = Readonly<Record<string, unknown>>

/** Thrown and caught in this file only: it names the field, never its value. */
class FieldFault {
  readonly field: string
  readonly expected: string
  constructor(field: string, expected: string) {
    this.field = field
    this.expected = expected
  }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const fieldsAt = (value: unknown, field: string): Fields => {
  if (!isFields(value)) throw new FieldFault(field, "an object")
  return value
}

const textAt = (fields: Fields, name: string, field: string): string => {
  const value = fields[name]
  if (typeof value !== "string" || value === "") throw new FieldFault(field, "a non-empty string")
  return value
}

/** A time as text, or as a `Date`, which the client decodes times to. */
const timeAt = (fields: Fields, name: string, field: string): string => {
  const time = fields[name]
  if (time instanceof Date && !Number.isNaN(time.getTime())) return time.toISOString()
  const value = textAt(fields, name, field)
  if (Number.isNaN(Date.parse(value))) throw new FieldFault(field, "an RFC 3339 time")
  return value
}

const countAt = (fields: Fields, name: string, absent: number): number => {
  const value = fields[name]
  if (value === undefined) return absent
  if (!Number.isSafeInteger(value) || typeof value !== "number" || value < 0)
    throw new FieldFault(`approval.${name}`, "a whole number")
  return value
}

const snapshotOf = <Status extends ApprovalStatus>(
  approval: Fields,
  status: Status
): ApprovalSnapshot<Status> => {
  if (approval["status"] !== status)
    throw new FieldFault("approval.status", `"${status}" for this event type`)
  const stage = approval["stage"]
  if (stage !== "reviewer" && stage !== "admin")
    throw new FieldFault("approval.stage", `"reviewer" or "admin"`)
  return {
    approval_id: textAt(approval, "approval_id", "approval.approval_id"),
    session_id: textAt(approval, "session_id", "approval.session_id"),
    step_id: textAt(approval, "step_id", "approval.step_id"),
    task_id: approval["task_id"] === null ? null : textAt(approval, "task_id", "approval.task_id"),
    status,
    stage,
    requested_at: timeAt(approval, "requested_at", "approval.requested_at"),
    review_deadline_at: timeAt(approval, "review_deadline_at", "approval.review_deadline_at"),
    escalation_deadline_at:
      approval["escalation_deadline_at"] === null
        ? null
        : timeAt(approval, "escalation_deadline_at", "approval.escalation_deadline_at"),
    expires_at: timeAt(approval, "expires_at", "approval.expires_at"),
    // Events of an older service, which can be replayed, have no counts.
    approvals_required: countAt(approval, "approvals_required", 1),
    approvals_given: countAt(approval, "approvals_given", status === "approved" ? 1 : 0)
  }
}

const decidedOf = <Status extends "approved" | "rejected">(
  approval: Fields,
  status: Status
): DecidedApproval<Status> => {
  const decider = fieldsAt(approval["decided_by"], "approval.decided_by")
  return {
    ...snapshotOf(approval, status),
    decided_at: timeAt(approval, "decided_at", "approval.decided_at"),
    decided_by: {
      id: textAt(decider, "id", "approval.decided_by.id"),
      name: textAt(decider, "name", "approval.decided_by.name")
    }
  }
}

const eventOf = (body: unknown): WebhookEvent | EventRefusal => {
  const fields = fieldsAt(body, "the body")
  const type = textAt(fields, "type", "type")
  const envelope = {
    id: textAt(fields, "id", "id"),
    org_id: textAt(fields, "org_id", "org_id"),
    occurred_at: timeAt(fields, "occurred_at", "occurred_at")
  }
  const approval = () => fieldsAt(fields["approval"], "approval")
  switch (type) {
    case "approval.requested":
    case "approval.expiring":
    case "approval.escalated":
    case "approval.vote_recorded":
      return { ...envelope, type, approval: snapshotOf(approval(), "pending") }
    case "approval.approved":
      return { ...envelope, type, approval: decidedOf(approval(), "approved") }
    case "approval.rejected":
      return { ...envelope, type, approval: decidedOf(approval(), "rejected") }
    case "approval.expired":
      return { ...envelope, type, approval: snapshotOf(approval(), "expired") }
    case "test":
      if (fields["approval"] !== null) throw new FieldFault("approval", "null for a test event")
      return { ...envelope, type, approval: null }
    case "verification": {
      const verification = fieldsAt(fields["verification"], "verification")
      const challenge = textAt(verification, "challenge", "verification.challenge")
      return { ...envelope, type, approval: null, verification: { challenge } }
    }
    default:
      return refuse("unknown_event_type", "Unknown event type. Update countersign/webhook to handle it.")
  }
}

/** Decodes an event from parsed JSON. Unknown fields are dropped, so that newer services can add fields. */
export const readEvent = (
  body: unknown
): { readonly ok: true; readonly event: WebhookEvent } | EventRefusal => {
  try {
    const event = eventOf(body)
    return "ok" in event ? event : { ok: true, event }
  } catch (fault) {
    if (!(fault instanceof FieldFault)) throw fault
    return refuse("malformed_event", `Invalid event: ${fault.field} must be ${fault.expected}.`)
  }
}
