import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type InvitationQuery, NewInvitation } from "../../../api/Invitations.ts"
import { EventId, InvitationId, KeyId, type OrgId } from "../../../domain/Ids.ts"
import {
  type Invitation,
  INVITATION_RETENTION,
  type InvitationStatus,
  MAX_PENDING_INVITATIONS
} from "../../../domain/identity/Invitation.ts"
import { presetScopes } from "../../../domain/identity/Scope.ts"
import { MAX_LINKS } from "../../../domain/identity/VerificationLink.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { equalsName } from "../../store/foldCase.ts"
import { beforeCursor, rowLimit } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"

const InvitationRow = Schema.Struct({
  invitation_id: InvitationId,
  input: Schema.toCodecJson(NewInvitation),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  expires_at: TimestampFromDate,
  accepted_at: Schema.NullOr(TimestampFromDate),
  key_id: Schema.NullOr(KeyId),
  revoked_at: Schema.NullOr(TimestampFromDate)
})
export type InvitationRow = typeof InvitationRow.Type

const invitationRows = rowsOf(InvitationRow)

const columns = (sql: SqlClient.SqlClient) => sql.literal(Object.keys(InvitationRow.fields).join(", "))

const encodeInput = Schema.encodeSync(Schema.fromJsonString(Schema.toCodecJson(NewInvitation)))

/** The state of an invitation at a time. */
const statusOf = (
  { accepted_at, expires_at, revoked_at }: Pick<InvitationRow, "accepted_at" | "expires_at" | "revoked_at">,
  now: Timestamp
): InvitationStatus => {
  if (accepted_at !== null) return "accepted"
  if (revoked_at !== null) return "revoked"
  return DateTime.isGreaterThan(expires_at, now) ? "pending" : "expired"
}

/** The rights that an invitation gives. */
export const rightsOf = ({ groups = [], preset, scopes = [] }: NewInvitation) => ({
  scopes: scopes.length > 0 || preset === undefined ? scopes : presetScopes(preset),
  groups
})

/** The invitation of a row. */
export const toInvitation = (
  { created_by_id, created_by_name, input, invitation_id, ...row }: InvitationRow,
  now: Timestamp
): Invitation => ({
  ...row,
  id: invitation_id,
  name: input.name,
  email: input.email,
  preset: input.preset ?? null,
  ...rightsOf(input),
  status: statusOf(row, now),
  created_by: { id: created_by_id, name: created_by_name }
})

const hasStatus = (sql: SqlClient.SqlClient, status: InvitationStatus, now: Timestamp) => {
  switch (status) {
    case "accepted":
      return sql`accepted_at IS NOT NULL`
    case "revoked":
      return sql`revoked_at IS NOT NULL`
    case "expired":
      return sql`(accepted_at IS NULL AND revoked_at IS NULL AND expires_at <= ${toDate(now)}::timestamptz)`
    case "pending":
      return sql`(accepted_at IS NULL AND revoked_at IS NULL AND expires_at > ${toDate(now)}::timestamptz)`
  }
}

/** Lists invitations, newest first. */
export const listInvitations = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: InvitationQuery,
  now: Timestamp
) =>
  invitationRows.all(sql`
    SELECT ${columns(sql)}
    FROM invitations
    WHERE org_id = ${org_id}
      AND least(accepted_at, revoked_at, expires_at) > ${toDate(DateTime.subtractDuration(now, INVITATION_RETENTION))}::timestamptz
      ${request.status === undefined ? sql.literal("") : sql`AND ${hasStatus(sql, request.status, now)}`}
      ${beforeCursor(sql, "invitation_id", request.cursor)}
    ORDER BY invitation_id DESC
    LIMIT ${rowLimit(request)}
  `)

/** Stores an invitation. */
export const insertInvitation = (
  sql: SqlClient.SqlClient,
  {
    input,
    ...row
  }: Omit<InvitationRow, "accepted_at" | "key_id" | "revoked_at"> & {
    readonly org_id: OrgId
    readonly event_id: EventId
  }
) => sql`
  INSERT INTO invitations (
    org_id, invitation_id, input, event_id, created_at, created_by_id, created_by_name, expires_at
  )
  VALUES (
    ${row.org_id}, ${row.invitation_id}, ${encodeInput(input)}::text::json, ${row.event_id},
    ${toDate(row.created_at)}::timestamptz, ${row.created_by_id}, ${row.created_by_name},
    ${toDate(row.expires_at)}::timestamptz
  )
`

const useRows = rowsOf(
  Schema.Struct({
    pending: Schema.Int,
    name_pending: Schema.Boolean,
    recent: Schema.Int,
    oldest: Schema.NullOr(TimestampFromDate)
  })
)

/**
 * What limits another invitation: how many are pending, whether one of them has this name, and the newest `perHour` since `since`. Runs under
 * the organization's lock.
 */
export const findUse = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  {
    name,
    now,
    perHour,
    since
  }: { readonly name: string; readonly now: Timestamp; readonly since: Timestamp; readonly perHour: number }
) =>
  useRows.first(sql`
    SELECT pending.count AS pending, pending.named AS name_pending, recent.count AS recent, recent.oldest
    FROM (
      SELECT count(*)::int AS count, coalesce(bool_or(${equalsName(sql, "(input ->> 'name')", name)}), false) AS named
      FROM (
        SELECT input
        FROM invitations
        WHERE org_id = ${org_id}
          AND accepted_at IS NULL
          AND revoked_at IS NULL
          AND expires_at > ${toDate(now)}::timestamptz
        LIMIT ${MAX_PENDING_INVITATIONS}
      ) AS listed
    ) AS pending
    CROSS JOIN (
      SELECT count(*)::int AS count, min(created_at) AS oldest
      FROM (
        SELECT created_at
        FROM invitations
        WHERE org_id = ${org_id}
          AND created_at > ${toDate(since)}::timestamptz
        ORDER BY invitation_id DESC
        LIMIT ${perHour}::int
      ) AS newest
    ) AS recent
  `)

const revokedRows = rowsOf(Schema.Struct({ input: InvitationRow.fields.input, changed: Schema.Boolean }))

/**
 * Revokes a pending invitation, and deletes its links. `changed`: false if it had ended. Undefined: there is no such invitation. Runs under
 * the organization's lock.
 */
export const revokeInvitation = (sql: SqlClient.SqlClient, org_id: OrgId, id: InvitationId, now: Timestamp) =>
  revokedRows.first(sql`
    WITH found AS MATERIALIZED (
      SELECT invitation_id, input
      FROM invitations
      WHERE org_id = ${org_id}
        AND invitation_id = ${id}
      FOR UPDATE
    ), revoked AS (
      UPDATE invitations
      SET revoked_at = ${toDate(now)}::timestamptz
      FROM found
      WHERE invitations.org_id = ${org_id}
        AND invitations.invitation_id = found.invitation_id
        AND accepted_at IS NULL
        AND revoked_at IS NULL
        AND expires_at > ${toDate(now)}::timestamptz
      RETURNING invitations.invitation_id
    ), links AS (
      DELETE FROM invitation_links
      USING revoked
      WHERE invitation_links.org_id = ${org_id}
        AND invitation_links.invitation_id = revoked.invitation_id
    )
    SELECT input, EXISTS (SELECT FROM revoked) AS changed
    FROM found
  `)

const mailRows = rowsOf(
  Schema.Struct({
    invitation_id: InvitationId,
    address: Schema.String,
    organization: Schema.String,
    created_at: TimestampFromDate,
    expires_at: TimestampFromDate,
    accepted_at: Schema.NullOr(TimestampFromDate),
    revoked_at: Schema.NullOr(TimestampFromDate)
  })
)

/** The email of an invitation and why it must not be sent, if so; undefined if the event is no such email. */
export const findInvitationMail = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  event_id: EventId,
  now: Timestamp
) {
  const row = yield* mailRows.first(sql`
    SELECT
      invitation_id, input ->> 'email' AS address, organizations.name AS organization, invitations.created_at, expires_at,
      accepted_at, revoked_at
    FROM invitations
    JOIN organizations USING (org_id)
    WHERE invitations.org_id = ${org_id}
      AND event_id = ${event_id}
  `)
  return row === undefined ? undefined : { ...row, status: statusOf(row, now) }
})

/** Stores a link of an invitation, and deletes its oldest links beyond `MAX_LINKS`. */
export const insertInvitationLink = (
  sql: SqlClient.SqlClient,
  link: {
    readonly org_id: OrgId
    readonly invitation_id: InvitationId
    readonly token_digest: Uint8Array
    readonly now: Timestamp
  }
) => sql`
  WITH deleted AS (
    DELETE FROM invitation_links
    WHERE org_id = ${link.org_id}
      AND token_digest IN (
        SELECT token_digest
        FROM invitation_links
        WHERE org_id = ${link.org_id}
          AND invitation_id = ${link.invitation_id}
        ORDER BY created_at DESC, token_digest
        OFFSET ${MAX_LINKS - 1}::int
      )
  )
  INSERT INTO invitation_links (org_id, invitation_id, token_digest, created_at)
  VALUES (${link.org_id}, ${link.invitation_id}, ${link.token_digest}::bytea, ${toDate(link.now)}::timestamptz)
`

const linkedRows = rowsOf(Schema.Struct({ ...InvitationRow.fields, event_id: EventId }))

/** The pending invitation that a link accepts; undefined if there is none. */
export const findLinked = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  token_digest: Uint8Array,
  now: Timestamp
) =>
  linkedRows.first(sql`
    SELECT ${columns(sql)}, event_id
    FROM invitations
    WHERE org_id = ${org_id}
      AND invitation_id = (
        SELECT invitation_id
        FROM invitation_links
        WHERE org_id = ${org_id}
          AND token_digest = ${token_digest}
      )
      AND accepted_at IS NULL
      AND revoked_at IS NULL
      AND expires_at > ${toDate(now)}::timestamptz
  `)

/** Records the acceptance of a pending invitation, and deletes its links. Runs under the organization's lock. */
export const updateAccepted = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: InvitationId,
  { key_id, now }: { readonly key_id: KeyId; readonly now: Timestamp }
) => sql`
  WITH links AS (
    DELETE FROM invitation_links
    WHERE org_id = ${org_id}
      AND invitation_id = ${id}
  )
  UPDATE invitations
  SET accepted_at = ${toDate(now)}::timestamptz, key_id = ${key_id}
  WHERE org_id = ${org_id}
    AND invitation_id = ${id}
`
