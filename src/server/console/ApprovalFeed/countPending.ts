/** Counts the pending approvals that a key can approve now, without reading them all. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { MAX_PENDING_COUNT, type PendingCount } from "../../../api/console/PendingCount.ts"
import { isSamePerson } from "../../../domain/approvals/ApprovalState.ts"
import { countApprovals, DEFAULT_QUORUM } from "../../../domain/approvals/Quorum.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { ApprovalRow } from "../../approvals/approvalRows.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** The most pending approvals that one count scans, those with the nearest deadlines. Later ones are not counted. */
const MAX_SCANNED = 10_000

/** The most rows that one count returns. More than the count, because a few of them fail the check of their quorum, which is not in SQL. */
const MAX_CANDIDATES = 500

const candidateRows = rowsOf(
  Schema.Struct({
    stage: ApprovalRow.fields.stage,
    quorum: ApprovalRow.fields.quorum,
    votes: ApprovalRow.fields.votes
  })
)

/** Counts them up to `MAX_PENDING_COUNT`. Zero for a key that cannot decide. */
export const countPending = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, principal: Principal) {
  const nothing: PendingCount = { count: 0, more: false }
  if (!principal.scopes.has("approvals.decide")) return nothing
  const rows = yield* candidateRows.all(countStatement(sql, principal))
  const { actor, groups, makers } = principal
  const count = rows.filter(({ quorum, stage, votes }) => {
    const given = votes ?? []
    const vote = { groups, stage }
    return (
      !given.some((other) => isSamePerson(other, { actor, makers })) &&
      countApprovals(quorum ?? DEFAULT_QUORUM, [...given, vote]) > given.length
    )
  }).length
  return {
    count: Math.min(count, MAX_PENDING_COUNT),
    more: count > MAX_PENDING_COUNT || rows.length === MAX_CANDIDATES
  }
})

/** Reads the quorum and the votes of the approvals that the principal may decide, by the index of pending approvals. */
export const countStatement = (
  sql: SqlClient.SqlClient,
  { actor, groups, makers, org_id, scopes }: Principal
) => sql`
  SELECT stage, quorum, votes
  FROM (
    SELECT stage, quorum, votes, self_approval, requested_by_id
    FROM approvals
    WHERE org_id = ${org_id}
      AND status = 'pending'
    ORDER BY expires_at, approval_id
    LIMIT ${MAX_SCANNED}
  ) AS pending
  WHERE (stage <> 'admin' OR ${scopes.has("approvals.admin")})
    AND (self_approval OR requested_by_id <> ALL(${textArray([actor.id, ...makers])}::text[]))
    AND (
      stage = 'admin'
      OR quorum IS NULL
      OR EXISTS (
        SELECT
        FROM json_array_elements(quorum) AS part
        WHERE part->>'group' IS NULL
          OR part->>'group' = ANY(${textArray(groups)}::text[])
      )
    )
    AND NOT EXISTS (
      SELECT
      FROM json_array_elements(votes) AS vote
      WHERE vote->'voted_by'->>'id' = ${actor.id}
    )
  LIMIT ${MAX_CANDIDATES}
`
