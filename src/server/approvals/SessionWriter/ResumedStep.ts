import { Schema } from "effect"
import { ApprovalOutcome, ApprovalStatus, DecisionSource } from "../../../domain/approvals/Approval.ts"
import { Actor } from "../../../domain/identity/Principal.ts"
import { ExecutionJson, executionJson, millis } from "../executionRows.ts"
import { SavedStep } from "../Steps/rows.ts"

/** A point in time as milliseconds since the Unix epoch, in JSON. */
const TimestampFromMillis = Schema.DateTimeUtcFromMillis

/** A saved step with all that its current decision depends on, as of one snapshot of the database. */
const ResumedStep = Schema.Struct({
  ...SavedStep.fields,
  requested_at: TimestampFromMillis,
  session_closed: Schema.Boolean,
  /** Null: it is not claimed. */
  execution: Schema.NullOr(ExecutionJson),
  /** The revision of the organization's rules; 0 if it has none. */
  rules_revision: Schema.Int,
  approval: Schema.NullOr(
    Schema.Struct({
      status: ApprovalStatus,
      outcome: Schema.NullOr(ApprovalOutcome),
      decision_source: Schema.NullOr(DecisionSource),
      decided_at: Schema.NullOr(TimestampFromMillis),
      decided_by: Schema.NullOr(Actor),
      comment: Schema.NullOr(Schema.String),
      changes_requested: Schema.Boolean,
      /** The numbers of the newest messages of either side; 0: none. */
      newest_question: Schema.Int,
      newest_answer: Schema.Int,
      expires_at: TimestampFromMillis,
      /** When the next transition by time is due; null once the approval is closed. */
      next_due_at: Schema.NullOr(TimestampFromMillis),
      /** Whether it was rejected with a counter-proposal, whose arguments are not read here: they can be large. */
      has_proposal: Schema.Boolean
    })
  )
})
export type ResumedStep = typeof ResumedStep.Type

/** Decodes the JSON text of `resumedStepJson`. A text that does not decode is a defect: this service wrote the row. */
export const decodeResumedStep = Schema.decodeUnknownEffect(Schema.fromJsonString(ResumedStep), {
  disableChecks: true
})

const reviewerJson = `CASE WHEN step.reviewer_task_id IS NOT NULL THEN json_build_object(
    'task_id', step.reviewer_task_id,
    'release_id', step.reviewer_release_id,
    'reason', step.reviewer_reason
  ) END`

/**
 * An SQL expression for the JSON text of a `ResumedStep`, over the tables `session`, `step`, `approval` and `rules`. One column of JSON: a
 * statement that mostly returns no saved step does not have to return twenty empty columns.
 */
export const resumedStepJson = `json_build_object(
  'step_id', step.step_id,
  'task_id', step.task_id,
  'tool', step.tool,
  'action_class', step.action_class,
  'arguments_digest', step.arguments_digest,
  'rule_id', step.rule_id,
  'decision', step.decision,
  'reason', step.reason,
  'approval_id', step.approval_id,
  'proposal_approval_id', step.proposal_approval_id,
  'grant_id', step.grant_id,
  'reviewer', ${reviewerJson},
  'requested_at', ${millis("step.requested_at")},
  'last_decision', coalesce(step.last_decision, step.decision),
  'completed', step.outcome_at IS NOT NULL,
  'session_closed', session.closed_at IS NOT NULL,
  'execution', ${executionJson},
  'rules_revision', coalesce(rules.revision, 0),
  'approval', CASE WHEN approval.approval_id IS NOT NULL THEN json_build_object(
    'status', approval.status,
    'outcome', approval.outcome,
    'decision_source', approval.decision_source,
    'decided_at', ${millis("approval.decided_at")},
    'decided_by', CASE WHEN approval.decided_by_id IS NOT NULL THEN json_build_object(
      'id', approval.decided_by_id,
      'name', approval.decided_by_name
    ) END,
    'comment', approval.comment,
    'changes_requested', approval.changes_requested,
    'newest_question', approval.newest_question,
    'newest_answer', approval.newest_answer,
    'expires_at', ${millis("approval.expires_at")},
    'next_due_at', ${millis("approval.next_due_at")},
    'has_proposal', approval.proposed_digest IS NOT NULL
  ) END
)::text`
