import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { nextTransitionAt } from "../../../domain/approvals/ApprovalState.ts"
import { approvalsRequired, DEFAULT_QUORUM } from "../../../domain/approvals/Quorum.ts"
import { boolArray, float8Array, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
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

/** More columns of a list, if a step has them. */
const rareColumns = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>,
  prefix: "" | "n."
): Statement.Fragment =>
  sql.literal(hasRareColumns(ops) ? RARE_COLUMNS.map((column) => `, ${prefix}${column}`).join("") : "")

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
  claimed_at: "CASE WHEN n.claim_id IS NOT NULL THEN e.at END",
  claimed_by_id: "CASE WHEN n.claim_id IS NOT NULL THEN n.requested_by_id END"
}

/** More columns or values of a list, if a step is claimed. */
const claimColumns = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>,
  list: (columns: typeof CLAIM_COLUMNS) => ReadonlyArray<string>
): Statement.Fragment =>
  sql.literal(
    hasClaims(ops)
      ? list(CLAIM_COLUMNS)
          .map((text) => `, ${text}`)
          .join("")
      : ""
  )

/** The steps of the writes. */
export const newSteps = (sql: SqlClient.SqlClient, ops: ReadonlyArray<Op<ChangeOf<"Step">>>) => {
  const steps = ops.map(({ change }) => change.step)
  const claims = ops.map(({ change }) => change.claim)
  return sql`
    new_steps AS MATERIALIZED (
      SELECT *
      FROM unnest(
        ${int4Array(ops.map(({ op }) => op))}::int[],
        ${textArray(steps.map((step) => step.step_id))}::text[],
        ${textArray(steps.map((step) => step.task_id))}::text[],
        ${textArray(steps.map((step) => step.tool))}::text[],
        ${textArray(steps.map((step) => step.action_class))}::text[],
        ${textArray(steps.map((step) => step.arguments))}::text[],
        ${textArray(steps.map((step) => step.arguments_digest))}::text[],
        ${textArray(steps.map((step) => step.rule_id))}::text[],
        ${textArray(steps.map((step) => step.decision))}::text[],
        ${textArray(steps.map((step) => step.reason))}::text[],
        ${textArray(steps.map((step) => step.approval_id))}::text[],
        ${textArray(steps.map((step) => step.requested_by_id))}::text[]${
          hasRareColumns(ops)
            ? sql`,
        ${textArray(steps.map((step) => step.shadow_effect))}::text[],
        ${textArray(steps.map((step) => step.shadow_rule_id))}::text[],
        ${textArray(steps.map((step) => step.shadow_reason))}::text[],
        ${int4Array(steps.map((step) => step.shadow_revision))}::int[],
        ${textArray(steps.map((step) => step.proposal_approval_id))}::text[],
        ${textArray(steps.map((step) => step.grant_id))}::text[],
        ${textArray(steps.map(({ reviewer }) => reviewer?.task_id ?? null))}::text[],
        ${textArray(steps.map(({ reviewer }) => reviewer?.release_id ?? null))}::text[],
        ${textArray(steps.map(({ reviewer }) => reviewer?.reason ?? null))}::text[]`
            : sql.literal("")
        }${
          hasClaims(ops)
            ? sql`,
        ${textArray(claims.map((claim) => claim?.claim_id ?? null))}::text[],
        ${textArray(claims.map((claim) => claim?.claimed_by.name ?? null))}::text[],
        ${timestamptzArray(claims.map((claim) => claim?.expires_at ?? null))}::timestamptz[],
        ${textArray(claims.map((claim) => claim?.request ?? null))}::text[]`
            : sql.literal("")
        }
      ) AS n (
        op, step_id, task_id, tool, action_class, arguments, arguments_digest, rule_id, decision, reason, approval_id,
        requested_by_id${rareColumns(sql, ops, "")}${sql.literal(hasClaims(ops) ? ", claim_id, claimed_by_name, claim_expires_at, claim_request" : "")}
      )
    )`
}

/**
 * The steps that were saved before, so that a resume takes no second statement. Steps are looked up first, because most are new:
 * each of the outer joins that follow is executed for a saved step only.
 */
export const savedSteps = (sql: SqlClient.SqlClient, org_id: OrgId | undefined) => {
  const ofOrganization = (table: string) => onlyOrganization(sql, `${table}.org_id`, org_id)
  return sql`
  saved AS MATERIALIZED (
    SELECT o.op, ${sql.literal(resumedStepJson)} AS saved
    FROM new_steps n
      JOIN ops o ON o.op = n.op
      JOIN governed_steps step
        ON step.org_id = o.org_id AND step.session_id = o.session_id AND step.step_id = n.step_id
          ${ofOrganization("step")}
      LEFT JOIN agent_sessions session ON session.org_id = step.org_id AND session.session_id = step.session_id
        ${ofOrganization("session")}
      LEFT JOIN approvals approval ON approval.org_id = o.org_id AND approval.approval_id = step.approval_id
        ${ofOrganization("approval")}
      LEFT JOIN approval_rules rules ON rules.org_id = o.org_id ${ofOrganization("rules")}
  )`
}

/** The rows of the result for steps that were saved before. */
export const savedRows = (sql: SqlClient.SqlClient) =>
  sql.literal(
    "UNION ALL SELECT op, NULL::text, NULL::float8, NULL::text, false, 0, NULL::float8, NULL::int, NULL::int, NULL::float8, saved, NULL::text FROM saved"
  )

/** Inserts new steps, and the approvals of steps that wait. */
export const stepChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const approvals = ops.flatMap(({ change, op }) =>
    change.approval === null ? [] : [{ op, row: change.approval }]
  )
  const rows = approvals.map(({ row }) => row)
  return [
    {
      name: "stepped",
      ctes: [
        sql`
          inserted_steps AS (
            INSERT INTO governed_steps (
              org_id, session_id, step_id, task_id, tool, action_class, arguments, arguments_digest, rule_id, decision, reason,
              approval_id, requested_by_id, requested_at${rareColumns(sql, ops, "")}${claimColumns(sql, ops, Object.keys)}
            )
            SELECT
              e.org_id, e.session_id, n.step_id, n.task_id, n.tool, n.action_class, n.arguments::json, n.arguments_digest, n.rule_id,
              n.decision, n.reason, n.approval_id, n.requested_by_id, e.at${rareColumns(sql, ops, "n.")}${claimColumns(sql, ops, Object.values)}
            FROM new_steps n
              JOIN eligible e ON e.op = n.op
            ON CONFLICT (org_id, session_id, step_id) DO NOTHING
            RETURNING org_id, session_id, step_id
          )`,
        sql`
          stepped AS MATERIALIZED (
            SELECT n.op
            FROM new_steps n
              JOIN ops o ON o.op = n.op
              JOIN inserted_steps i ON i.org_id = o.org_id AND i.session_id = o.session_id AND i.step_id = n.step_id
          )`
      ],
      inserts:
        approvals.length === 0
          ? []
          : [
              sql`
                inserted_approvals AS (
                  INSERT INTO approvals (
                    org_id, approval_id, session_id, step_id, task_id, tool, action_class, arguments, arguments_bytes, arguments_digest,
                    rule_summary, agent_summary, arguments_line, status, stage, requested_at, requested_by_id, review_deadline_at, escalation_deadline_at, expires_at,
                    expiring_seconds, timeout_action, self_approval, require_comment, quorum, approvals_required, next_due_at
                  )
                  SELECT
                    a.org_id, n.approval_id, a.session_id, n.step_id, n.task_id, n.tool, n.action_class, n.arguments::json,
                    coalesce(octet_length(n.arguments), 0), n.arguments_digest, p.rule_summary, p.agent_summary, p.arguments_line, 'pending', 'reviewer', a.at, n.requested_by_id,
                    p.review_deadline_at, p.escalation_deadline_at, p.review_deadline_at, p.expiring_seconds, p.timeout_action,
                    p.self_approval, p.require_comment, p.quorum::json, p.approvals_required, p.next_due_at
                  FROM unnest(
                    ${int4Array(approvals.map(({ op }) => op))}::int[],
                    ${timestamptzArray(rows.map((row) => row.review_deadline_at))}::timestamptz[],
                    ${timestamptzArray(rows.map((row) => row.escalation_deadline_at))}::timestamptz[],
                    ${float8Array(rows.map((row) => row.expiring_seconds))}::float8[],
                    ${textArray(rows.map((row) => row.timeout_action))}::text[],
                    ${boolArray(rows.map((row) => row.self_approval))}::boolean[],
                    ${textArray(rows.map((row) => row.require_comment))}::text[],
                    ${textArray(rows.map(({ quorum }) => (quorum === null ? null : JSON.stringify(quorum))))}::text[],
                    ${int4Array(rows.map(({ quorum }) => approvalsRequired(quorum ?? DEFAULT_QUORUM)))}::int[],
                    ${timestamptzArray(rows.map((row) => nextTransitionAt(stateOf(row))))}::timestamptz[],
                    ${textArray(rows.map((row) => row.rule_summary))}::text[],
                    ${textArray(rows.map((row) => row.agent_summary))}::text[],
                    ${textArray(rows.map((row) => row.arguments_line))}::text[]
                  ) AS p (
                    op, review_deadline_at, escalation_deadline_at, expiring_seconds, timeout_action, self_approval, require_comment, quorum,
                    approvals_required, next_due_at, rule_summary, agent_summary, arguments_line
                  )
                    JOIN new_steps n ON n.op = p.op
                    JOIN numbered a ON a.op = p.op
                )`
            ]
    }
  ]
}
