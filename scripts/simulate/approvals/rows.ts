/** Rows of the model, from parameters and as the SQL client returns them. */
import type { Statement, Transaction, Wait } from "../core/Store.ts"
import {
  approvalKey,
  type ApprovalEntry,
  type ApprovalModel,
  type ApprovalStateColumns,
  type SessionEntry,
  type StepEntry
} from "./ApprovalModel.ts"
import type { Given, GivenRow } from "./Given.ts"

export const PAUSE: Wait = { _tag: "Pause" }

/** A statement of the model, which returns rows as the SQL client does. */
export type ModelStatement = Statement<ReadonlyArray<object>>

export const date = (millis: number): Date => new Date(millis)
export const dateOrNull = (millis: number | null): Date | null => (millis === null ? null : date(millis))

/** A JSON column as the SQL client returns it. */
const parsedOrNull = (text: string | null): unknown => (text === null ? null : JSON.parse(text))

/** The columns of an approval that the statement selects, as the SQL client returns them. */
export const approvalRow = (given: Given, entry: ApprovalEntry): object => {
  const all: Readonly<Record<string, unknown>> = {
    ...entry,
    requested_at: date(entry.requested_at),
    review_deadline_at: date(entry.review_deadline_at),
    escalation_deadline_at: dateOrNull(entry.escalation_deadline_at),
    expires_at: date(entry.expires_at),
    escalated_at: dateOrNull(entry.escalated_at),
    decided_at: dateOrNull(entry.decided_at),
    next_due_at: dateOrNull(entry.next_due_at),
    quorum: parsedOrNull(entry.quorum),
    votes: parsedOrNull(entry.votes),
    proposed_by: parsedOrNull(entry.proposed_by),
    proposal_expires_at: dateOrNull(entry.proposal_expires_at)
  }
  return Object.fromEntries(given.selected.map((column) => [column, all[column]]))
}

const stateColumns = (row: GivenRow): ApprovalStateColumns => ({
  status: row.text("status"),
  stage: row.text("stage"),
  expires_at: row.time("expires_at"),
  expiring_notified: row.boolean("expiring_notified"),
  escalated_at: row.timeOrNull("escalated_at"),
  votes: row.textOrNull("votes"),
  approvals_given: row.number("approvals_given"),
  outcome: row.textOrNull("outcome"),
  decision_source: row.textOrNull("decision_source"),
  decided_at: row.timeOrNull("decided_at"),
  decided_by_id: row.textOrNull("decided_by_id"),
  decided_by_name: row.textOrNull("decided_by_name"),
  comment: row.textOrNull("comment"),
  next_due_at: row.timeOrNull("next_due_at")
})

/** The new state of an approval, for statements that write transitions. */
export const withGivenState = (entry: ApprovalEntry, row: GivenRow): ApprovalEntry => ({
  ...entry,
  ...stateColumns(row)
})

/** The JSON of `resumedStepJson`. */
export const resumedStep = (
  model: ApprovalModel,
  transaction: Transaction,
  session: SessionEntry,
  step: StepEntry
): string => {
  const approval =
    step.approval_id === null
      ? undefined
      : transaction.get(model.approvals, approvalKey({ org_id: step.org_id, approval_id: step.approval_id }))
  return JSON.stringify({
    step_id: step.step_id,
    task_id: step.task_id,
    tool: step.tool,
    action_class: step.action_class,
    arguments_digest: step.arguments_digest,
    rule_id: step.rule_id,
    decision: step.decision,
    reason: step.reason,
    approval_id: step.approval_id,
    proposal_approval_id: step.proposal_approval_id,
    grant_id: step.grant_id,
    requested_at: step.requested_at,
    last_decision: step.last_decision ?? step.decision,
    completed: step.outcome_at !== null,
    session_closed: session.closed_at !== null,
    rules_revision: transaction.get(model.rules, step.org_id)?.revision ?? 0,
    approval:
      approval === undefined
        ? null
        : {
            status: approval.status,
            outcome: approval.outcome,
            decision_source: approval.decision_source,
            decided_at: approval.decided_at,
            expires_at: approval.expires_at,
            next_due_at: approval.next_due_at,
            has_proposal: approval.proposed_digest !== null
          }
  })
}

/** A row of an INSERT. */
export const newStep = (row: GivenRow): StepEntry => ({
  org_id: row.text("org_id"),
  session_id: row.text("session_id"),
  step_id: row.text("step_id"),
  task_id: row.textOrNull("task_id"),
  tool: row.text("tool"),
  action_class: row.text("action_class"),
  arguments: row.textOrNull("arguments"),
  arguments_digest: row.text("arguments_digest"),
  rule_id: row.textOrNull("rule_id"),
  decision: row.text("decision"),
  reason: row.text("reason"),
  approval_id: row.textOrNull("approval_id"),
  proposal_approval_id: row.textOrNull("proposal_approval_id"),
  grant_id: row.textOrNull("grant_id"),
  requested_by_id: row.text("requested_by_id"),
  requested_at: row.time("requested_at"),
  last_decision: null,
  outcome_status: null,
  outcome_at: null
})

/** A row of an INSERT. */
export const newApproval = (row: GivenRow): ApprovalEntry => ({
  ...stateColumns(row),
  org_id: row.text("org_id"),
  approval_id: row.text("approval_id"),
  session_id: row.text("session_id"),
  step_id: row.text("step_id"),
  task_id: row.textOrNull("task_id"),
  tool: row.text("tool"),
  action_class: row.text("action_class"),
  arguments: row.textOrNull("arguments"),
  arguments_bytes: row.number("arguments_bytes"),
  arguments_digest: row.text("arguments_digest"),
  rule_summary: row.textOrNull("rule_summary"),
  agent_summary: row.textOrNull("agent_summary"),
  telling_arguments: row.textOrNull("telling_arguments"),
  requested_at: row.time("requested_at"),
  requested_by_id: row.text("requested_by_id"),
  review_deadline_at: row.time("review_deadline_at"),
  escalation_deadline_at: row.timeOrNull("escalation_deadline_at"),
  expiring_seconds: row.numberOrNull("expiring_seconds"),
  timeout_action: row.text("timeout_action"),
  self_approval: row.boolean("self_approval"),
  quorum: row.textOrNull("quorum"),
  approvals_required: row.number("approvals_required"),
  ...withoutProposal
})

/** The columns of an approval without a counter-proposal. */
export const withoutProposal = {
  proposed_arguments: null,
  proposed_digest: null,
  proposed_by: null,
  proposal_expires_at: null,
  proposal_step_id: null
} as const
