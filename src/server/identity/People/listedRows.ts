import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Person, PersonStatus } from "../../../api/console/People.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { KeyId, type OrgId } from "../../../domain/Ids.ts"
import { Preset, Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { containsText } from "../../store/foldCase.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"
import { grantedScopes } from "../grantedScopes.ts"
import type { KeyRef } from "../KeyRef.ts"

/** The filters of a list of people. */
export interface PersonFilter {
  readonly status?: PersonStatus
  /** Part of the name or of the email address. */
  readonly text?: string
}

const listedRows = rowsOf(
  Schema.Struct({
    id: KeyId,
    name: Schema.String,
    email: Schema.NullOr(Schema.String),
    has_ended: Schema.Boolean,
    preset: Schema.NullOr(Preset),
    scopes: Schema.Array(Scope),
    groups: Schema.Array(Schema.String),
    signed_in_at: TimestampFromDate,
    sessions: Schema.Int,
    made_keys: Schema.Int,
    blocked_at: Schema.NullOr(TimestampFromDate),
    blocked_by: Schema.NullOr(Schema.String)
  })
)

const toPerson = ({
  has_ended,
  ...row
}: Effect.Success<ReturnType<typeof listedRows.all>>[number]): Person => ({
  ...row,
  status: row.blocked_at !== null ? "blocked" : has_ended ? "ended" : "active"
})

const hasEnded = (sql: SqlClient.SqlClient, now: Timestamp) =>
  sql`(revoked_at IS NOT NULL OR coalesce(api_keys.expires_at <= ${toDate(now)}::timestamptz, false))`

const select = (sql: SqlClient.SqlClient, now: Timestamp) => sql`
  SELECT
    key_id AS id, name, email, ${hasEnded(sql, now)} AS has_ended, preset, ${grantedScopes(sql)} AS scopes, groups,
    signed_in_at, blocked_at, blocked_by_name AS blocked_by,
    (
      SELECT count(*)::int
      FROM console_sessions
      WHERE console_sessions.org_id = people.org_id
        AND console_sessions.key_id = people.key_id
        AND console_sessions.expires_at > ${toDate(now)}::timestamptz
    ) AS sessions,
    (
      WITH RECURSIVE line AS (
        SELECT people.key_id
        UNION
        SELECT made.key_id
        FROM line
          JOIN api_keys AS made ON made.org_id = people.org_id AND made.created_by_id = line.key_id
      )
      SELECT count(*)::int
      FROM line
        JOIN api_keys AS made ON made.org_id = people.org_id AND made.key_id = line.key_id
      WHERE made.key_id <> people.key_id
        AND made.revoked_at IS NULL
        AND (made.expires_at IS NULL OR made.expires_at > ${toDate(now)}::timestamptz)
    ) AS made_keys
  FROM people
    JOIN api_keys USING (org_id, key_id)`

const hasStatus = (sql: SqlClient.SqlClient, status: PersonStatus, now: Timestamp) => {
  switch (status) {
    case "active":
      return sql`blocked_at IS NULL AND NOT ${hasEnded(sql, now)}`
    case "blocked":
      return sql`blocked_at IS NOT NULL`
    case "ended":
      return sql`blocked_at IS NULL AND ${hasEnded(sql, now)}`
  }
}

/** People of an organization, last created first. Their number is limited by `MAX_PEOPLE`. */
export const listPeople = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<KeyId> & PersonFilter,
  now: Timestamp
) =>
  Effect.map(
    listedRows.all(sql`
      ${select(sql, now)}
      WHERE ${sql.and([
        sql`people.org_id = ${org_id}`,
        ...(request.cursor === undefined ? [] : [sql`people.key_id < ${request.cursor}`]),
        ...(request.status === undefined ? [] : [hasStatus(sql, request.status, now)]),
        ...(request.text === undefined
          ? []
          : [containsText(sql, "concat_ws(' ', name, email)", request.text)])
      ])}
      ORDER BY people.key_id DESC
      LIMIT ${rowLimit(request)}
    `),
    (rows) => rows.map(toPerson)
  )

/** One person; undefined if the organization has none with this id. */
export const findListedPerson = (sql: SqlClient.SqlClient, { key_id, org_id }: KeyRef, now: Timestamp) =>
  Effect.map(
    listedRows.first(sql`
      ${select(sql, now)}
      WHERE people.org_id = ${org_id}
        AND people.key_id = ${key_id}
    `),
    (row) => (row === undefined ? undefined : toPerson(row))
  )

/** Blocks a person, or with `null` unblocks. */
export const setBlocked = (
  sql: SqlClient.SqlClient,
  { key_id, org_id }: KeyRef,
  blocked: { readonly at: Timestamp; readonly by: string } | null
) => sql`
  UPDATE people
  SET blocked_at = ${blocked === null ? null : toDate(blocked.at)}::timestamptz,
    blocked_by_name = ${blocked === null ? null : blocked.by}::text
  WHERE org_id = ${org_id}
    AND key_id = ${key_id}
`
