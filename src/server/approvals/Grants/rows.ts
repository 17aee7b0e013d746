import { DateTime, Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { GrantFilter } from "../../../api/Grants.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { type Grant, GrantEndReason, GrantScope, grantStatus } from "../../../domain/approvals/Grant.ts"
import { RuleCondition } from "../../../domain/approvals/RuleCondition.ts"
import { actorOf } from "../../../domain/identity/Principal.ts"
import { ApprovalId, GrantId, KeyId, type OrgId, SessionId, StepId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { mayDecide } from "../../identity/mayDecide.ts"
import { pageWithinBytes, toPageWithinBytes, type Page } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"

/** The columns of `grants` that a client sees. */
const listedFields = {
  grant_id: GrantId,
  session_id: SessionId,
  approval_id: ApprovalId,
  step_id: StepId,
  scope: GrantScope,
  tool: Schema.String,
  action_class: Schema.String,
  conditions: Schema.Array(RuleCondition),
  reason: Schema.String,
  uses: Schema.Int,
  max_uses: Schema.NullOr(Schema.Int),
  last_used_at: Schema.NullOr(TimestampFromDate),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  expires_at: TimestampFromDate,
  ended_at: Schema.NullOr(TimestampFromDate),
  end_reason: Schema.NullOr(GrantEndReason),
  revoked_by_id: Schema.NullOr(KeyId),
  revoked_by_name: Schema.NullOr(Schema.String)
}

const listedColumns = Object.keys(listedFields)
  .map((column) => `grants.${column}`)
  .join(", ")

const ListedRow = Schema.Struct({ ...listedFields, is_key_usable: Schema.Boolean })

/** Joins the key that made a grant. */
const joinKey =
  "LEFT JOIN api_keys ON api_keys.org_id = grants.org_id AND api_keys.key_id = grants.created_by_id"

const listedSelection = (sql: SqlClient.SqlClient, now: Timestamp) => sql`
  ${sql.literal(listedColumns)}, coalesce(${mayDecide(sql, now)}, false) AS is_key_usable`

/** A row as the API returns it. */
const toGrant = (row: typeof ListedRow.Type, now: Timestamp): Grant => ({
  grant_id: row.grant_id,
  status: grantStatus(row, now),
  session_id: row.session_id,
  approval_id: row.approval_id,
  step_id: row.step_id,
  scope: row.scope,
  tool: row.tool,
  action_class: row.action_class,
  when: row.conditions,
  reason: row.reason,
  uses: row.uses,
  max_uses: row.max_uses,
  last_used_at: row.last_used_at,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  expires_at: row.expires_at,
  ended_at: row.ended_at,
  revoked_by: actorOf(row.revoked_by_id, row.revoked_by_name)
})

const grantRows = rowsOf(ListedRow)

/** The grant that a condition selects, by its id or by its approval; undefined if there is none. */
const findOne = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  condition: Statement.Fragment,
  now: Timestamp
): Effect.Effect<Grant | undefined> =>
  grantRows
    .first(
      sql`
        SELECT ${listedSelection(sql, now)}
        FROM grants
          ${sql.literal(joinKey)}
        WHERE grants.org_id = ${org_id}
          AND ${condition}
      `
    )
    .pipe(
      Effect.map((row) => (row === undefined ? undefined : toGrant(row, now))),
      Effect.orDie
    )

/** The organization's grant with this id; undefined if there is none. */
export const findGrant = (sql: SqlClient.SqlClient, org_id: OrgId, id: GrantId, now: Timestamp) =>
  findOne(sql, org_id, sql`grants.grant_id = ${id}`, now)

/** The grant that was made with an approval; undefined if there is none. */
export const findGrantOfApproval = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ApprovalId,
  now: Timestamp
) => findOne(sql, org_id, sql`grants.approval_id = ${id}`, now)

const pageRows = rowsOf(Schema.Struct({ ...ListedRow.fields, found: Schema.Int }))

/** An SQL condition: the grant is active. The organization's limit of active grants bounds how many are. */
const isActive = (sql: SqlClient.SqlClient, now: Timestamp): Statement.Fragment => sql`(
  grants.ended_at IS NULL
  AND grants.expires_at > ${toDate(now)}
  AND EXISTS (
    SELECT FROM api_keys
    WHERE api_keys.org_id = grants.org_id
      AND api_keys.key_id = grants.created_by_id
      AND ${mayDecide(sql, now)}
  )
)`

/** Reads a page of the organization's grants, newest first. A page of large conditions has fewer than `limit`. */
export const listGrants = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<GrantId> & GrantFilter,
  now: Timestamp
) {
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "grants",
    id: "grant_id",
    bytes: "octet_length(conditions::text)",
    where: sql.and([
      sql`org_id = ${org_id}`,
      ...(request.session_id === undefined ? [] : [sql`session_id = ${request.session_id}`]),
      ...(request.tool === undefined ? [] : [sql`tool = ${request.tool}`]),
      ...(request.state === "active" ? [isActive(sql, now)] : []),
      ...(request.state === "ended" ? [sql`NOT ${isActive(sql, now)}`] : [])
    ]),
    request
  })
  const rows = yield* pageRows.all(sql`
    ${ctes}
    SELECT ${listedSelection(sql, now)}, found
    FROM sized
      JOIN grants USING (grant_id)
      ${sql.literal(joinKey)}
    WHERE grants.org_id = ${org_id}
      AND ${isOnPage}
    ORDER BY grants.grant_id DESC
  `)
  const page: Page<Grant, GrantId> = toPageWithinBytes(
    rows,
    (row) => toGrant(row, now),
    (row) => row.grant_id
  )
  return page
})

/** The numbers of active grants of a session and of its organization, counted up to these limits. */
export const countOpenGrants = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { org_id, session_id }: { readonly org_id: OrgId; readonly session_id: SessionId },
  limits: { readonly session: number; readonly organization: number },
  now: Timestamp
) {
  const [row] = yield* sql<{ readonly session: number; readonly organization: number }>`
    SELECT
      (SELECT count(*)::int FROM (
        SELECT FROM grants
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          AND ended_at IS NULL
          AND expires_at > ${toDate(now)}
        LIMIT ${limits.session}
      ) AS of_session) AS session,
      (SELECT count(*)::int FROM (
        SELECT FROM grants
        WHERE org_id = ${org_id}
          AND ended_at IS NULL
          AND expires_at > ${toDate(now)}
        LIMIT ${limits.organization}
      ) AS of_organization) AS organization
  `
  return row ?? { session: 0, organization: 0 }
})

/** A grant that is inserted. */
export interface NewGrantRow {
  readonly org_id: OrgId
  readonly grant_id: GrantId
  readonly session_id: SessionId
  readonly approval_id: ApprovalId
  readonly step_id: StepId
  readonly scope: GrantScope
  readonly tool: string
  readonly action_class: string
  readonly content_digest: string | null
  /** JSON text. */
  readonly conditions: string
  readonly reason: string
  readonly max_uses: number | null
  readonly created_at: Timestamp
  readonly created_by_id: KeyId
  readonly created_by_name: string
  readonly expires_at: Timestamp
}

/**
 * Inserts a grant, and notes in the row of its session until when there is one. The caller has locked that row: a step that is decided
 * afterwards sees the grant.
 */
export const insertGrant = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, row: NewGrantRow) {
  yield* sql`
    INSERT INTO grants ${sql.insert({
      ...row,
      created_at: toDate(row.created_at),
      expires_at: toDate(row.expires_at)
    })}
  `
  yield* sql`
    UPDATE agent_sessions
    SET grants_until = greatest(grants_until, ${toDate(row.expires_at)})
    WHERE org_id = ${row.org_id}
      AND session_id = ${row.session_id}
  `
})

/** Revokes a grant that has not ended. Returns whether it did. */
export const revokeGrant = (
  sql: SqlClient.SqlClient,
  {
    actor,
    grant_id,
    now,
    org_id
  }: {
    readonly org_id: OrgId
    readonly grant_id: GrantId
    readonly actor: { readonly id: KeyId; readonly name: string }
    readonly now: Timestamp
  }
) =>
  Effect.map(
    sql`
      UPDATE grants
      SET ended_at = ${toDate(now)}, end_reason = 'revoked', revoked_by_id = ${actor.id}, revoked_by_name = ${actor.name}
      WHERE org_id = ${org_id}
        AND grant_id = ${grant_id}
        AND ended_at IS NULL
        AND expires_at > ${toDate(now)}
      RETURNING grant_id
    `,
    (rows) => rows.length > 0
  )

/** Ends the grants of a session that is closed. */
export const endSessionGrants = (
  sql: SqlClient.SqlClient,
  {
    now,
    org_id,
    session_id
  }: {
    readonly org_id: OrgId
    readonly session_id: SessionId
    readonly now: Timestamp
  }
) => sql`
  UPDATE grants
  SET ended_at = ${toDate(now)}, end_reason = 'session_closed'
  WHERE org_id = ${org_id}
    AND session_id = ${session_id}
    AND ended_at IS NULL
    AND expires_at > ${toDate(now)}
`

/** Whether a session, by its `grants_until`, can have active grants. */
export const canHaveGrants = (grants_until: Timestamp | null, now: Timestamp): boolean =>
  grants_until !== null && DateTime.isGreaterThan(grants_until, now)
