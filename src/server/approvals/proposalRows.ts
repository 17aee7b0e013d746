/** Statements for counter-proposals. Their callers have locked the session's row, so that steps and decisions of a session take turns. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ApprovalTerms } from "../../domain/approvals/ApprovalState.ts"
import { mayAnswer, type StoredProposal } from "../../domain/approvals/StoredProposal.ts"
import { ApprovalId, KeyId, type OrgId, type SessionId, StepId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { mayDecide } from "../identity/mayDecide.ts"
import { rowsOf } from "../store/rows.ts"
import { type ApprovalKey, ProposedBy } from "./approvalRows.ts"

/** Proposals of the same arguments that a step considers. A reviewer can make one for each step that they reject. */
const MAX_CONSIDERED = 20

/** Length of a proposal's arguments, in bytes. */
export const proposalBytes = (proposal: StoredProposal): number => Buffer.byteLength(proposal.arguments ?? "")

/** Stores the proposal of an approval that was just rejected, and until when steps of its session look for proposals. */
export const insertProposal = (
  sql: SqlClient.SqlClient,
  { approval_id, org_id }: ApprovalKey,
  proposal: StoredProposal
) => sql`
  WITH proposed AS (
    UPDATE approvals
    SET
      proposed_arguments = ${proposal.arguments ?? null}::json,
      proposed_digest = ${proposal.digest},
      proposed_by = ${JSON.stringify({ groups: proposal.groups, makers: proposal.makers })}::json,
      proposal_expires_at = ${toDate(proposal.expires_at)}::timestamptz,
      arguments_bytes = arguments_bytes + ${proposalBytes(proposal)}::int
    WHERE org_id = ${org_id}
      AND approval_id = ${approval_id}
    RETURNING org_id, session_id, proposal_expires_at
  )
  UPDATE agent_sessions
  SET proposals_until = greatest(agent_sessions.proposals_until, proposed.proposal_expires_at)
  FROM proposed
  WHERE agent_sessions.org_id = proposed.org_id
    AND agent_sessions.session_id = proposed.session_id
`

/** A proposal that a step can use. */
const OpenProposal = Schema.Struct({
  approval_id: ApprovalId,
  /** The step that was rejected. */
  step_id: StepId,
  decided_by_id: KeyId,
  decided_by_name: Schema.String,
  proposed_by: ProposedBy
})
export type OpenProposal = typeof OpenProposal.Type

const openProposals = rowsOf(OpenProposal)

/** The step that looks for a proposal. */
export interface ProposalUse {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly digest: string
  /** The terms on which a person would be asked about the step. */
  readonly terms: ApprovalTerms
  /** The keys that began the session and that requested the step. */
  readonly requesters: ReadonlyArray<KeyId>
  readonly now: Timestamp
}

/**
 * The proposal that allows a step: it has the arguments of the step, its proposer may answer the question, and it expires first. The
 * proposer's key must still be able to decide: a revoked key's proposals allow nothing.
 */
export const findProposal = (
  sql: SqlClient.SqlClient,
  { digest, now, org_id, requesters, session_id, terms }: ProposalUse
) =>
  Effect.map(
    openProposals.all(sql`
      SELECT
        approvals.approval_id, approvals.step_id, approvals.decided_by_id, approvals.decided_by_name, approvals.proposed_by
      FROM approvals
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
        AND proposed_digest = ${digest}
        AND proposal_step_id IS NULL
        AND proposal_expires_at > ${toDate(now)}
        AND EXISTS (
          SELECT
          FROM api_keys
          WHERE api_keys.org_id = approvals.org_id
            AND api_keys.key_id = approvals.decided_by_id
            AND ${mayDecide(sql, now)}
        )
      ORDER BY proposal_expires_at, approval_id
      LIMIT ${MAX_CONSIDERED}
    `),
    (rows) =>
      rows.find(({ decided_by_id, decided_by_name, proposed_by }) =>
        mayAnswer({ ...proposed_by, actor: { id: decided_by_id, name: decided_by_name } }, terms, requesters)
      )
  )

/** Uses a proposal for a step. Later steps of the session look for proposals until the last unused one expires. */
export const useProposal = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { approval_id, org_id }: ApprovalKey,
  step_id: StepId
) {
  const used = yield* sql`
    WITH used AS (
      UPDATE approvals
      SET proposal_step_id = ${step_id}
      WHERE org_id = ${org_id}
        AND approval_id = ${approval_id}
        AND proposal_step_id IS NULL
      RETURNING session_id, approval_id
    )
    UPDATE agent_sessions
    SET proposals_until = (
      SELECT max(other.proposal_expires_at)
      FROM approvals AS other
      WHERE other.org_id = ${org_id}
        AND other.session_id = used.session_id
        AND other.proposed_digest IS NOT NULL
        AND other.proposal_step_id IS NULL
        -- The statement still sees the proposal as unused.
        AND other.approval_id <> used.approval_id
    )
    FROM used
    WHERE agent_sessions.org_id = ${org_id}
      AND agent_sessions.session_id = used.session_id
    RETURNING agent_sessions.session_id
  `
  if (used.length === 0)
    return yield* Effect.die(new Error("A proposal cannot be used by another step under the session's lock"))
})
