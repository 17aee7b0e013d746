import { DateTime, Schema } from "effect"
import { Approval } from "../../src/domain/approvals/Approval.ts"
import {
  type ApprovalEventType,
  approvalEventTypes,
  approvalEventBody,
  testEventBody
} from "../../src/domain/approvals/ApprovalEvent.ts"
import { challengeBody } from "../../src/domain/delivery/EndpointChallenge.ts"
import { EventId, OrgId } from "../../src/domain/Ids.ts"
import { pendingApproval } from "../support/approvals.ts"

const hex = "0192f0c1a2b37c4d8e5f60718293a4b5"

const pending = {
  ...pendingApproval,
  approval_id: `apr_${hex}`,
  session_id: `ses_${hex}`,
  step_id: "step 1 ☂",
  tool: "refund",
  action_class: "payment",
  arguments: { amount: 12 },
  rule_summary: "not for receivers",
  agent_summary: "not for receivers",
  requested_at: "2026-11-21T02:33:05.123Z",
  review_deadline_at: "2026-11-21T03:33:05.123Z",
  expires_at: "2026-11-21T03:33:05.123Z",
  comment: "not for receivers"
}

const decided = {
  decision_source: "human",
  decided_at: "2026-11-21T02:40:00.000Z",
  decided_by: { id: `key_${hex}`, name: "Ada" }
}

const approvals: Record<ApprovalEventType, object> = {
  "approval.requested": pending,
  "approval.expiring": { ...pending, task_id: `tsk_${hex}` },
  "approval.escalated": {
    ...pending,
    stage: "admin",
    escalation_deadline_at: "2026-11-21T04:33:05.123Z",
    expires_at: "2026-11-21T04:33:05.123Z"
  },
  "approval.vote_recorded": { ...pending, approvals_required: 2, approvals_given: 1 },
  "approval.approved": { ...pending, ...decided, status: "approved", outcome: "allow" },
  "approval.rejected": {
    ...pending,
    ...decided,
    status: "rejected",
    outcome: "reject",
    proposal: { arguments: "not for receivers", expires_at: "2026-11-21T03:40:00.000Z", used_by: null }
  },
  "approval.expired": { ...pending, status: "expired", outcome: "reject", decision_source: "timeout" }
}

const write = (type: ApprovalEventType): unknown =>
  JSON.parse(
    approvalEventBody({
      id: EventId.make(`evt_${hex}`),
      type,
      org_id: OrgId.make(`org_${hex}`),
      occurred_at: DateTime.makeUnsafe("2026-11-21T02:33:05.123Z"),
      approval: Schema.decodeUnknownSync(Approval)(approvals[type])
    })
  )

export const test = Object(
  JSON.parse(
    testEventBody({
      id: EventId.make(`evt_${hex}`),
      org_id: OrgId.make(`org_${hex}`),
      occurred_at: DateTime.makeUnsafe("2026-11-21T02:33:05.123Z")
    })
  )
)

const challenge = "6nRy1mHjV0WlqzX2q8Zb7gqS3cCkYxUe0dT4pLw9aBo"

/** A challenge that verifies an endpoint. */
export const verification = {
  ...test,
  type: "verification",
  verification: { challenge }
} as const

const written: unknown = JSON.parse(
  challengeBody({
    id: EventId.make(`evt_${hex}`),
    org_id: OrgId.make(`org_${hex}`),
    occurred_at: DateTime.makeUnsafe("2026-11-21T02:33:05.123Z"),
    challenge
  })
)

/** One event of each type, as the service sends them. */
export const all: ReadonlyArray<unknown> = [...approvalEventTypes.map(write), test, written]

const requested = Object(write("approval.requested"))
const approved = Object(write("approval.approved"))

const changed = (event: { readonly approval: object }, approval: object) => ({
  ...event,
  approval: { ...event.approval, ...approval }
})

/** Events without the counts of approvals. */
export const uncounted: ReadonlyArray<object> = [requested, approved, Object(write("approval.rejected"))].map(
  (event) => changed(event, { approvals_required: undefined, approvals_given: undefined })
)

/** Bodies that are not events, with the reason of the refusal. */
export const malformed: ReadonlyArray<readonly [body: unknown, reason: string]> = [
  [null, "malformed_event"],
  [[], "malformed_event"],
  ["approval.requested", "malformed_event"],
  [{}, "malformed_event"],
  [{ ...test, id: 1 }, "malformed_event"],
  [{ ...test, id: "" }, "malformed_event"],
  [{ ...test, org_id: null }, "malformed_event"],
  [{ ...test, occurred_at: "yesterday" }, "malformed_event"],
  [{ ...test, approval: {} }, "malformed_event"],
  [{ ...test, type: "verification" }, "malformed_event"],
  [{ ...verification, verification: { challenge: 1 } }, "malformed_event"],
  [{ ...test, type: "approval.pigeon" }, "unknown_event_type"],
  [{ ...test, type: "toString" }, "unknown_event_type"],
  [{ ...test, type: "approval.requested" }, "malformed_event"],
  [changed(requested, { status: "approved" }), "malformed_event"],
  [changed(requested, { stage: "boss" }), "malformed_event"],
  [changed(requested, { approval_id: null }), "malformed_event"],
  [changed(requested, { task_id: undefined }), "malformed_event"],
  [changed(requested, { expires_at: null }), "malformed_event"],
  [changed(approved, { decided_at: undefined }), "malformed_event"],
  [changed(approved, { decided_by: "Ada" }), "malformed_event"],
  [changed(approved, { decided_by: { id: "key_1" } }), "malformed_event"],
  ...[-1, 1.5, 2 ** 53, "2", null, {}].map((count): readonly [unknown, string] => [
    changed(requested, { approvals_given: count }),
    "malformed_event"
  ])
]
