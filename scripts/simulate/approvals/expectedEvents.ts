/** The events that changes of rows must have: what an observer of the tables expects, apart from the code of the service. */
import { type ApprovalEntry, type Commit, sessionKey } from "./ApprovalModel.ts"

/** Whether a change closes an approval. */
export const closesApproval = (before: ApprovalEntry, after: ApprovalEntry): boolean =>
  before.status === "pending" && after.status !== "pending"

/** The approval events of a change, in order. */
export const approvalEventsOf = (
  before: ApprovalEntry | undefined,
  after: ApprovalEntry
): ReadonlyArray<string> => {
  if (before === undefined) return ["approval.requested"]
  const escalates = before.stage === "reviewer" && after.stage === "admin"
  const warns =
    after.status === "pending" && after.expiring_notified && (!before.expiring_notified || escalates)
  return [
    ...(escalates ? ["approval.escalated"] : []),
    ...(warns ? ["approval.expiring"] : []),
    ...(after.status === "pending" && after.approvals_given > before.approvals_given
      ? ["approval.vote_recorded"]
      : []),
    ...(closesApproval(before, after) ? [`approval.${after.status}`] : [])
  ]
}

const sessionEventTypes: Readonly<Record<string, string>> = {
  "approval.requested": "approval:requested",
  "approval.expiring": "approval:expiring",
  "approval.escalated": "approval:escalated",
  "approval.vote_recorded": "approval:vote_recorded",
  "approval.approved": "approval:decided",
  "approval.rejected": "approval:decided",
  "approval.expired": "approval:decided"
}

/** The session events that a commit must have appended to a session: type, step, and decision or status. */
export const sessionEventsOf = (commit: Commit, key: string): ReadonlyArray<string> => {
  const events: Array<string> = []
  for (const { after, before } of commit.approvals) {
    if (sessionKey(after) !== key) continue
    for (const event of approvalEventsOf(before, after)) {
      const status = event === "approval.escalated" ? "pending" : after.status
      events.push(`${sessionEventTypes[event] ?? ""} ${after.step_id} ${status}`)
    }
  }
  for (const { after, before } of commit.steps) {
    if (sessionKey(after) !== key) continue
    const decision = after.last_decision ?? after.decision
    if (before === undefined || decision !== (before.last_decision ?? before.decision))
      events.push(`step:governed ${after.step_id} ${decision}`)
    if (after.outcome_status !== null && before?.outcome_at === null)
      events.push(`tool:outcome ${after.step_id} ${after.outcome_status}`)
  }
  for (const { after, before } of commit.sessions) {
    if (sessionKey(after) === key && after.closed_at !== null && before?.closed_at === null)
      events.push("session:closed")
  }
  return events
}
