import type { SqlClient } from "effect/sql"
import { nextTransitionAt } from "../../../domain/approvals/ApprovalState.ts"
import { approvalsRequired, DEFAULT_QUORUM } from "../../../domain/approvals/Quorum.ts"
import {
  bools,
  float8s,
  type GivenRows,
  insertCte,
  int4s,
  type RowInsert,
  texts,
  timestamps,
  unnestRows
} from "../../store/givenRows.ts"
import { stateOf } from "../approvalRows.ts"
import type { ChangeOf, ChangePart, Op } from "./Op.ts"
import { resumedStepJson } from "./ResumedStep.ts"

/** The columns that few steps have: the difference of the shadow rules, and what allowed the step. Statements without one do not name them. */
const RARE_COLUMNS = [
  "shadow_effect",
  "shadow_rule_id",
  "shadow_reason",
  "shadow_revision",
  "proposal_approval_id",
  "grant_id",
  "reviewer_task_id",
  "reviewer_release_id",
  "reviewer_reason"
]

const hasRareColumns = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>): boolean =>
  ops.some(
    ({ change: { step } }) =>
      step.shadow_effect !== null ||
      step.proposal_approval_id !== null ||
      step.grant_id !== null ||
      step.reviewer !== null
  )

const hasClaims = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>): boolean =>
  ops.some(({ change }) => change.claim !== null)

/** The columns of a first claim, and their values: it is made with the step, by the same key. Statements without a claim do not name them. */
const CLAIM_COLUMNS = {
  claim_id: "n.claim_id",
  claimed_by_name: "n.claimed_by_name",
  claim_expires_at: "n.claim_expires_at",
  claim_request: "n.claim_request",
  execution: "CASE WHEN n.claim_id IS NOT NULL THEN 'executing' END",
  attempt: "CASE WHEN n.claim_id IS NOT NULL THEN 1 END",
  claimed_at: "CASE WHEN n.claim_id IS NOT NULL THEN a.at END",
  claimed_by_id: "CASE WHEN n.claim_id IS NOT NULL THEN n.requested_by_id END"
}

/** The table of the steps of the writes. */
export const NEW_STEPS = "new_steps"

/** The steps of the writes. */
export const givenSteps = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>): GivenRows => {
  const steps = ops.map(({ change }) => change.step)
  const claims = ops.map(({ change }) => change.claim)
  return {
    ops: ops.map(({ op }) => op),
    columns: {
      step_id: texts(steps.map((step) => step.step_id)),
      task_id: texts(steps.map((step) => step.task_id)),
      tool: texts(steps.map((step) => step.tool)),
      action_class: texts(steps.map((step) => step.action_class)),
      arguments: texts(steps.map((step) => step.arguments)),
      arguments_digest: texts(steps.map((step) => step.arguments_digest)),
      rule_id: texts(steps.map((step) => step.rule_id)),
      decision: texts(steps.map((step) => step.decision)),
      reason: texts(steps.map((step) => step.reason)),
      approval_id: texts(steps.map((step) => step.approval_id)),
      requested_by_id: texts(steps.map((step) => step.requested_by_id)),
      ...(hasRareColumns(ops)
        ? {
            shadow_effect: texts(steps.map((step) => step.shadow_effect)),
            shadow_rule_id: texts(steps.map((step) => step.shadow_rule_id)),
            shadow_reason: texts(steps.map((step) => step.shadow_reason)),
            shadow_revision: int4s(steps.map((step) => step.shadow_revision)),
            proposal_approval_id: texts(steps.map((step) => step.proposal_approval_id)),
            grant_id: texts(steps.map((step) => step.grant_id)),
            reviewer_task_id: texts(steps.map(({ reviewer }) => reviewer?.task_id ?? null)),
            reviewer_release_id: texts(steps.map(({ reviewer }) => reviewer?.release_id ?? null)),
            reviewer_reason: texts(steps.map(({ reviewer }) => reviewer?.reason ?? null))
          }
        : {}),
      ...(hasClaims(ops)
        ? {
            claim_id: texts(claims.map((claim) => claim?.claim_id ?? null)),
            claimed_by_name: texts(claims.map((claim) => claim?.claimed_by.name ?? null)),
            claim_expires_at: timestamps(claims.map((claim) => claim?.expires_at ?? null)),
            claim_request: texts(claims.map((claim) => claim?.request ?? null))
          }
        : {})
    }
  }
}

export const newSteps = (sql: SqlClient.SqlClient, ops: ReadonlyArray<Op<ChangeOf<"Step">>>) =>
  sql`${sql.literal(NEW_STEPS)} AS MATERIALIZED (SELECT * FROM ${unnestRows(givenSteps(ops), "n")})`

/**
 * The steps that were saved before, so that a resume takes no second statement. Steps are looked up first, because most are new:
 * each of the outer joins that follow is executed for a saved step only.
 */
export const savedSteps = (sql: SqlClient.SqlClient) =>
  sql.literal(`
  saved AS MATERIALIZED (
    SELECT o.op, ${resumedStepJson} AS saved
    FROM new_steps n
      JOIN ops o ON o.op = n.op
      JOIN governed_steps step
        ON step.org_id = o.org_id AND step.session_id = o.session_id AND step.step_id = n.step_id
      LEFT JOIN agent_sessions session ON session.org_id = step.org_id AND session.session_id = step.session_id
      LEFT JOIN approvals approval ON approval.org_id = o.org_id AND approval.approval_id = step.approval_id
      LEFT JOIN approval_rules rules ON rules.org_id = o.org_id
  )`)

/** The rows of the result for steps that were saved before. */
export const savedRows = (sql: SqlClient.SqlClient) =>
  sql.literal(
    "UNION ALL SELECT op, NULL::text, NULL::float8, NULL::text, false, 0, NULL::float8, NULL::int, NULL::int, NULL::float8, saved, NULL::text FROM saved"
  )

/** The rows of the steps. */
const insertedSteps = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>): RowInsert => ({
  name: "inserted_steps",
  into: "governed_steps",
  columns: {
    org_id: "a.org_id",
    session_id: "a.session_id",
    step_id: "n.step_id",
    task_id: "n.task_id",
    tool: "n.tool",
    action_class: "n.action_class",
    arguments: "n.arguments::json",
    arguments_digest: "n.arguments_digest",
    rule_id: "n.rule_id",
    decision: "n.decision",
    reason: "n.reason",
    approval_id: "n.approval_id",
    requested_by_id: "n.requested_by_id",
    requested_at: "a.at",
    ...(hasRareColumns(ops) ? Object.fromEntries(RARE_COLUMNS.map((column) => [column, `n.${column}`])) : {}),
    ...(hasClaims(ops) ? CLAIM_COLUMNS : {})
  },
  rows: { n: givenSteps(ops) },
  tables: { n: NEW_STEPS }
})

/** The approvals of steps that wait. */
const insertedApprovals = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>): ReadonlyArray<RowInsert> => {
  const approvals = ops.flatMap(({ change, op }) =>
    change.approval === null ? [] : [{ op, row: change.approval }]
  )
  if (approvals.length === 0) return []
  const rows = approvals.map(({ row }) => row)
  return [
    {
      name: "inserted_approvals",
      into: "approvals",
      columns: {
        org_id: "a.org_id",
        approval_id: "n.approval_id",
        session_id: "a.session_id",
        step_id: "n.step_id",
        task_id: "n.task_id",
        tool: "n.tool",
        action_class: "n.action_class",
        arguments: "n.arguments::json",
        arguments_bytes: "coalesce(octet_length(n.arguments), 0)",
        arguments_digest: "n.arguments_digest",
        rule_summary: "p.rule_summary",
        agent_summary: "p.agent_summary",
        arguments_line: "p.arguments_line",
        status: "'pending'",
        stage: "'reviewer'",
        requested_at: "a.at",
        requested_by_id: "n.requested_by_id",
        review_deadline_at: "p.review_deadline_at",
        escalation_deadline_at: "p.escalation_deadline_at",
        expires_at: "p.review_deadline_at",
        expiring_seconds: "p.expiring_seconds",
        timeout_action: "p.timeout_action",
        self_approval: "p.self_approval",
        require_comment: "p.require_comment",
        quorum: "p.quorum::json",
        approvals_required: "p.approvals_required",
        next_due_at: "p.next_due_at"
      },
      rows: {
        p: {
          ops: approvals.map(({ op }) => op),
          columns: {
            review_deadline_at: timestamps(rows.map((row) => row.review_deadline_at)),
            escalation_deadline_at: timestamps(rows.map((row) => row.escalation_deadline_at)),
            expiring_seconds: float8s(rows.map((row) => row.expiring_seconds)),
            timeout_action: texts(rows.map((row) => row.timeout_action)),
            self_approval: bools(rows.map((row) => row.self_approval)),
            require_comment: texts(rows.map((row) => row.require_comment)),
            quorum: texts(rows.map(({ quorum }) => (quorum === null ? null : JSON.stringify(quorum)))),
            approvals_required: int4s(rows.map(({ quorum }) => approvalsRequired(quorum ?? DEFAULT_QUORUM))),
            next_due_at: timestamps(rows.map((row) => nextTransitionAt(stateOf(row)))),
            rule_summary: texts(rows.map((row) => row.rule_summary)),
            agent_summary: texts(rows.map((row) => row.agent_summary)),
            arguments_line: texts(rows.map((row) => row.arguments_line))
          }
        },
        n: givenSteps(ops)
      },
      tables: { n: NEW_STEPS }
    }
  ]
}

/** The rows of new steps: the steps, and the approvals of those that wait. */
export const stepInserts = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>) => ({
  steps: insertedSteps(ops),
  approvals: insertedApprovals(ops)
})

/** Inserts new steps, and the approvals of steps that wait. */
export const stepChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const { approvals, steps } = stepInserts(ops)
  return [
    {
      name: "stepped",
      ctes: [
        insertCte(
          sql,
          {
            ...steps,
            ending:
              "ON CONFLICT (org_id, session_id, step_id) DO NOTHING RETURNING org_id, session_id, step_id"
          },
          "eligible"
        ),
        sql`
          stepped AS MATERIALIZED (
            SELECT n.op
            FROM new_steps n
              JOIN ops o ON o.op = n.op
              JOIN inserted_steps i ON i.org_id = o.org_id AND i.session_id = o.session_id AND i.step_id = n.step_id
          )`
      ],
      inserts: approvals
    }
  ]
}
