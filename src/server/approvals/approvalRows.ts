import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import {
  type Approval,
  ApprovalOutcome,
  ApprovalStatus,
  CommentRequirement,
  DecisionSource
} from "../../domain/approvals/Approval.ts"
import { ApprovalStage } from "../../domain/approvals/ApprovalStage.ts"
import type { ApprovalState } from "../../domain/approvals/ApprovalState.ts"
import {
  approvalsRequired,
  DEFAULT_QUORUM,
  isDefaultQuorum,
  type Quorum,
  QuorumPart,
  Vote
} from "../../domain/approvals/Quorum.ts"
import type { CounterProposal } from "../../domain/approvals/CounterProposal.ts"
import type { StoredProposal } from "../../domain/approvals/StoredProposal.ts"
import { actorOf } from "../../domain/identity/Principal.ts"
import { ApprovalId, KeyId, OrgId, SessionId, StepId, TaskId } from "../../domain/Ids.ts"
import { formatTimestamp, TimestampFromDate } from "../../domain/Time.ts"
import { lockOnNode } from "../store/Cluster.ts"
import { onlyOrganization } from "../store/onlyOrganization.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { parseArguments } from "./parseArguments.ts"

/** A vote as JSON in a row: the time is text, and the keys that made the voter's key are stored with it. */
const StoredVote = Schema.Struct({ ...Vote.fields, voted_at: Schema.String, makers: Schema.Array(KeyId) })

/** Who made a proposal, beside the key that decided: see `StoredProposal`. */
export const ProposedBy = Schema.Struct({
  groups: Schema.Array(Schema.String),
  makers: Schema.Array(KeyId)
})

/** A row of `approvals`. */
export const ApprovalRow = Schema.Struct({
  org_id: OrgId,
  approval_id: ApprovalId,
  session_id: SessionId,
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  /** JSON text; null if the agent sent no arguments, which differs from the text `null`. */
  arguments: Schema.NullOr(Schema.String),
  arguments_digest: Schema.String,
  /** The effect of the step: by the rule's template, and by the agent's claim. Null: there is none. */
  rule_summary: Schema.NullOr(Schema.String),
  agent_summary: Schema.NullOr(Schema.String),
  /** Only written, and read by the console's list. */
  arguments_line: Schema.NullOr(Schema.String),
  status: ApprovalStatus,
  stage: ApprovalStage,
  requested_at: TimestampFromDate,
  requested_by_id: KeyId,
  review_deadline_at: TimestampFromDate,
  escalation_deadline_at: Schema.NullOr(TimestampFromDate),
  expires_at: TimestampFromDate,
  expiring_seconds: Schema.NullOr(Schema.Number),
  expiring_notified: Schema.Boolean,
  escalated_at: Schema.NullOr(TimestampFromDate),
  timeout_action: ApprovalOutcome,
  self_approval: Schema.Boolean,
  require_comment: CommentRequirement,
  /** Null: the default quorum, one approval by anyone who may decide. */
  quorum: Schema.NullOr(Schema.Array(QuorumPart)),
  /** Null: none yet. */
  votes: Schema.NullOr(Schema.Array(StoredVote)),
  outcome: Schema.NullOr(ApprovalOutcome),
  decision_source: Schema.NullOr(DecisionSource),
  decided_at: Schema.NullOr(TimestampFromDate),
  decided_by_id: Schema.NullOr(KeyId),
  decided_by_name: Schema.NullOr(Schema.String),
  comment: Schema.NullOr(Schema.String),
  changes_requested: Schema.Boolean,
  /** JSON text; null if there is no proposal, or if the arguments were left out. */
  proposed_arguments: Schema.NullOr(Schema.String),
  proposed_digest: Schema.NullOr(Schema.String),
  proposed_by: Schema.NullOr(ProposedBy),
  proposal_expires_at: Schema.NullOr(TimestampFromDate),
  /** The step that the proposal has allowed. */
  proposal_step_id: Schema.NullOr(StepId)
})
export type ApprovalRow = typeof ApprovalRow.Type

/** The columns with arguments, which can be 4 MiB each. */
const argumentColumns: ReadonlyArray<string> = ["arguments", "proposed_arguments"]

/** The columns of `ApprovalRow`. Arguments are read as text, because a parsed `null` cannot be distinguished from absent arguments. */
export const approvalColumns = Object.keys(ApprovalRow.fields)
  .map((column) =>
    argumentColumns.includes(column) ? `approvals.${column}::text AS ${column}` : `approvals.${column}`
  )
  .join(", ")

/** The same columns without the arguments: for lists of many approvals. */
export const approvalColumnsWithoutArguments = Object.keys(ApprovalRow.fields)
  .map((column) => (argumentColumns.includes(column) ? `NULL::text AS ${column}` : `approvals.${column}`))
  .join(", ")

/** Decodes rows of `approvalColumns`. */
export const approvalRows = rowsOf(ApprovalRow)

/** The organization's approval with this id; undefined if there is none. */
export const findApproval = (sql: SqlClient.SqlClient, org_id: OrgId, id: ApprovalId) =>
  approvalRows.first(sql`
    SELECT ${sql.literal(approvalColumns)}
    FROM approvals
    WHERE org_id = ${org_id}
      AND approval_id = ${id}
  `)

/** The key of an approval. */
export interface ApprovalKey {
  readonly org_id: OrgId
  readonly approval_id: ApprovalId
}

/** Reads approvals with at most `maxBytes` of arguments in one statement: one result for each key, in order. */
export const findApprovalsByKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  keys: ReadonlyArray<ApprovalKey>,
  maxBytes: number,
  org_id?: OrgId
) {
  const rows = yield* approvalRows.all(sql`
    SELECT ${sql.literal(approvalColumns)}
    FROM unnest(
      ${textArray(keys.map(({ org_id }) => org_id))}::text[],
      ${textArray(keys.map(({ approval_id }) => approval_id))}::text[]
    ) AS wanted (org_id, approval_id)
      JOIN approvals USING (org_id, approval_id)
    WHERE approvals.arguments_bytes <= ${maxBytes}
      ${onlyOrganization(sql, "approvals.org_id", org_id)}
  `)
  const found = new Map(rows.map((row) => [`${row.org_id} ${row.approval_id}`, row]))
  return keys.map(({ approval_id, org_id }) => ({ row: found.get(`${org_id} ${approval_id}`) }))
})

/**
 * `findApproval` that also locks the session's row and then the approval's (FOR NO KEY UPDATE) until the transaction ends. Every
 * transition locks in this order, because the session's row numbers its events.
 */
export const lockApprovalForUpdate = (sql: SqlClient.SqlClient, org_id: OrgId, id: ApprovalId) =>
  lockOnNode(
    sql,
    org_id,
    approvalRows.first(sql`
      SELECT ${sql.literal(approvalColumns)}
      FROM agent_sessions
        JOIN approvals USING (org_id, session_id)
      WHERE org_id = ${org_id}
        AND approvals.approval_id = ${id}
      FOR NO KEY UPDATE OF agent_sessions, approvals
    `)
  )

/** The stored form of a quorum. */
export const storedQuorum = (quorum: Quorum): ApprovalRow["quorum"] =>
  isDefaultQuorum(quorum) ? null : quorum

/** The state of an approval, for `transition`. */
export const stateOf = (row: ApprovalRow): ApprovalState => ({
  status: row.status,
  stage: row.stage,
  requested_at: row.requested_at,
  requested_by: row.requested_by_id,
  review_deadline_at: row.review_deadline_at,
  escalation_deadline_at: row.escalation_deadline_at,
  expires_at: row.expires_at,
  expiring_seconds: row.expiring_seconds,
  expiring_notified: row.expiring_notified,
  escalated_at: row.escalated_at,
  timeout_action: row.timeout_action,
  self_approval: row.self_approval,
  require_comment: row.require_comment,
  quorum: row.quorum ?? DEFAULT_QUORUM,
  votes: row.votes?.map((vote) => ({ ...vote, voted_at: DateTime.makeUnsafe(vote.voted_at) })) ?? [],
  outcome: row.outcome,
  decision_source: row.decision_source,
  decided_at: row.decided_at,
  decided_by: actorOf(row.decided_by_id, row.decided_by_name),
  comment: row.comment,
  changes_requested: row.changes_requested,
  proposal: storedProposalOf(row)
})

const storedProposalOf = ({
  proposal_expires_at,
  proposal_step_id,
  proposed_arguments,
  proposed_by,
  proposed_digest
}: ApprovalRow): StoredProposal | null =>
  proposed_digest === null || proposal_expires_at === null || proposed_by === null
    ? null
    : {
        arguments: proposed_arguments ?? undefined,
        digest: proposed_digest,
        expires_at: proposal_expires_at,
        ...proposed_by,
        used_by: proposal_step_id
      }

/** The row with a new state. */
export const withState = (row: ApprovalRow, state: ApprovalState): ApprovalRow => ({
  ...row,
  status: state.status,
  stage: state.stage,
  expires_at: state.expires_at,
  expiring_notified: state.expiring_notified,
  escalated_at: state.escalated_at,
  votes:
    state.votes.length === 0
      ? null
      : state.votes.map((vote) => ({ ...vote, voted_at: formatTimestamp(vote.voted_at) })),
  outcome: state.outcome,
  decision_source: state.decision_source,
  decided_at: state.decided_at,
  decided_by_id: state.decided_by?.id ?? null,
  decided_by_name: state.decided_by?.name ?? null,
  comment: state.comment,
  changes_requested: state.changes_requested,
  ...proposalColumns(state.proposal)
})

const proposalColumns = (proposal: StoredProposal | null) => ({
  proposed_arguments: proposal?.arguments ?? null,
  proposed_digest: proposal?.digest ?? null,
  proposed_by: proposal === null ? null : { groups: proposal.groups, makers: proposal.makers },
  proposal_expires_at: proposal?.expires_at ?? null,
  proposal_step_id: proposal?.used_by ?? null
})

/** The columns of an approval without a proposal. */
export const withoutProposal = proposalColumns(null)

/** A row as the API returns it. */
export const toApproval = (row: ApprovalRow): Approval => {
  const state = stateOf(row)
  const votes = state.votes.map(({ makers: _, ...vote }) => vote)
  return {
    approval_id: row.approval_id,
    session_id: row.session_id,
    step_id: row.step_id,
    task_id: row.task_id,
    tool: row.tool,
    action_class: row.action_class,
    ...(row.arguments === null ? {} : { arguments: parseArguments(row.arguments) }),
    rule_summary: row.rule_summary,
    agent_summary: row.agent_summary,
    arguments_digest: row.arguments_digest,
    status: state.status,
    stage: state.stage,
    requested_at: row.requested_at,
    review_deadline_at: state.review_deadline_at,
    escalation_deadline_at: state.escalation_deadline_at,
    expires_at: state.expires_at,
    escalated_at: state.escalated_at,
    timeout_action: state.timeout_action,
    quorum: state.quorum,
    approvals_required: approvalsRequired(state.quorum),
    require_comment: state.require_comment,
    approvals_given: votes.length,
    votes,
    outcome: state.outcome,
    decision_source: state.decision_source,
    decided_at: state.decided_at,
    decided_by: state.decided_by,
    comment: state.comment,
    changes_requested: state.changes_requested,
    proposal: state.proposal === null ? null : toProposal(state.proposal)
  }
}

const toProposal = ({ arguments: text, expires_at, used_by }: StoredProposal): CounterProposal => ({
  ...(text === undefined ? {} : { arguments: parseArguments(text) }),
  expires_at,
  used_by
})
