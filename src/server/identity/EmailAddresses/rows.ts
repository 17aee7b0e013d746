import { Array as Arr, DateTime, Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { LINK_LIFETIME, MAX_LINKS } from "../../../domain/identity/VerificationLink.ts"
import { type EventId, InvitationId, KeyId, OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import type { KeyRef } from "../KeyRef.ts"
import { mailbox, mailboxSql } from "../mailbox.ts"
import { rowsOf } from "../../store/rows.ts"

/** The time from which on a request for a link still has a usable one. */
const earliestUsable = (now: Timestamp): Date => toDate(DateTime.subtractDuration(now, LINK_LIFETIME))

/**
 * SQL that joins `api_keys` to the confirmations of their addresses: `confirmation.verified_at`, and
 * `confirmation.link_sent`, whether a link was requested that can still be used. Null if none ever was.
 */
export const joinConfirmation = (sql: SqlClient.SqlClient, now: Timestamp) => sql`
  LEFT JOIN LATERAL (
    SELECT verified_at, requested_at > ${earliestUsable(now)}::timestamptz AS link_sent
    FROM email_addresses
    WHERE email_addresses.org_id = api_keys.org_id
      AND email_addresses.address = ${mailbox(sql)}
  ) AS confirmation ON true`

const askedRows = rowsOf(
  Schema.Struct({
    address: Schema.String,
    verified_at: Schema.NullOr(TimestampFromDate),
    requested_at: Schema.NullOr(TimestampFromDate),
    requests_full_at: Schema.NullOr(TimestampFromDate)
  })
)

/** A key's address, and when its owner was asked; undefined if the key has none. */
export const findAddress = (sql: SqlClient.SqlClient, { key_id, org_id }: KeyRef) =>
  askedRows.first(sql`
    SELECT keys.address, asked.verified_at, asked.requested_at, asked.requests_full_at
    FROM (
      SELECT org_id, ${mailbox(sql)} AS address
      FROM api_keys
      WHERE org_id = ${org_id}
        AND key_id = ${key_id}
        AND email IS NOT NULL
    ) AS keys
    LEFT JOIN email_addresses AS asked USING (org_id, address)
  `)

const bucketRows = rowsOf(Schema.Struct({ requests_full_at: TimestampFromDate }))

/** The state of the rate limit of an address; undefined if no link was requested. */
export const findBucket = (sql: SqlClient.SqlClient, org_id: OrgId, address: string) =>
  bucketRows.first(sql`
    SELECT requests_full_at
    FROM email_addresses
    WHERE org_id = ${org_id}
      AND address = ${address}
  `)

/** Bounds the ids that are read. Twice the hour, because ids have the machine's time, which may differ from the database's. */
const RECENT_IDS_MILLIS = Duration.toMillis("2 hours")

/** Times of the invitations to an address since `since`, within the last hour, the newest first, at most `limit`. */
export const listInvitationTimes = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  address: string,
  since: Timestamp,
  limit: number
) {
  const rows = yield* sql<{ readonly created_at: Date }>`
    SELECT created_at
    FROM invitations
    WHERE org_id = ${org_id}
      AND invitation_id > ${yield* InvitationId.lowerBoundAgo(RECENT_IDS_MILLIS)}
      AND created_at > ${toDate(since)}::timestamptz
      AND ${sql.literal(mailboxSql("(input ->> 'email')"))} = ${address}
    ORDER BY invitation_id DESC
    LIMIT ${limit}::int
  `
  return Arr.map(rows, ({ created_at }) => created_at.getTime())
})

/** Times of the requests since `since`, the oldest first, at most `limit`. */
export const listRequestTimes = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  since: Timestamp,
  limit: number
) {
  const rows = yield* sql<{ readonly requested_at: Date }>`
    SELECT requested_at
    FROM email_addresses
    WHERE org_id = ${org_id}
      AND requested_at > ${toDate(since)}
    ORDER BY requested_at
    LIMIT ${limit}
  `
  return Arr.map(rows, ({ requested_at }) => requested_at.getTime())
})

/** Records that a link was requested. The email of an earlier request is no longer sent. */
export const upsertRequest = (
  sql: SqlClient.SqlClient,
  request: KeyRef & {
    readonly address: string
    readonly event_id: EventId
    readonly requested_at: Date
    readonly requests_full_at: Date
  }
) => sql`
  INSERT INTO email_addresses ${sql.insert({ ...request })}
  ON CONFLICT (org_id, address) DO UPDATE
  SET event_id = excluded.event_id,
    key_id = excluded.key_id,
    requested_at = excluded.requested_at,
    requests_full_at = excluded.requests_full_at
`

const mailRows = rowsOf(
  Schema.Struct({
    address: Schema.String,
    organization: Schema.String,
    requested_at: TimestampFromDate,
    verified: Schema.Boolean,
    in_use: Schema.Boolean
  })
)

/** The verification email of an event; undefined if a newer one was requested since, or the address was removed. */
export const findVerificationMail = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  event_id: EventId,
  now: Timestamp
) =>
  mailRows.first(sql`
    SELECT
      asked.address, o.name AS organization, asked.requested_at, asked.verified_at IS NOT NULL AS verified,
      EXISTS (
        SELECT 1
        FROM api_keys
        WHERE org_id = asked.org_id
          AND email IS NOT NULL
          AND revoked_at IS NULL
          AND (expires_at IS NULL OR expires_at > ${toDate(now)}::timestamptz)
          AND ${mailbox(sql)} = asked.address
      ) AS in_use
    FROM email_addresses AS asked
    JOIN organizations AS o USING (org_id)
    WHERE asked.org_id = ${org_id}
      AND asked.event_id = ${event_id}
  `)

/**
 * Stores a link to the address of an event, and deletes its expired links and the oldest beyond `MAX_LINKS`. Returns
 * false if the address was confirmed, removed, or asked again meanwhile.
 */
export const insertLink = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  link: {
    readonly org_id: OrgId
    readonly event_id: EventId
    readonly token_digest: Uint8Array
    readonly now: Timestamp
    readonly expires_at: Timestamp
  }
) {
  const rows = yield* sql`
    WITH asked AS (
      SELECT org_id, address
      FROM email_addresses
      WHERE org_id = ${link.org_id}
        AND event_id = ${link.event_id}
        AND verified_at IS NULL
    ), old AS (
      SELECT
        org_id, address, token_digest, expires_at,
        row_number() OVER (ORDER BY expires_at DESC, token_digest) AS nth
      FROM email_verification_links
      JOIN asked USING (org_id, address)
    ), deleted AS (
      DELETE FROM email_verification_links AS link
      USING old
      WHERE link.org_id = old.org_id
        AND link.address = old.address
        AND link.token_digest = old.token_digest
        AND (old.nth >= ${MAX_LINKS}::int OR old.expires_at <= ${toDate(link.now)}::timestamptz)
    )
    INSERT INTO email_verification_links (org_id, address, token_digest, expires_at)
    SELECT org_id, address, ${link.token_digest}::bytea, ${toDate(link.expires_at)}::timestamptz
    FROM asked
    RETURNING 1 AS inserted
  `
  return rows.length > 0
})

const confirmedRows = rowsOf(Schema.Struct({ org_id: OrgId, address: Schema.String, key_id: KeyId }))

/** The address that a usable link leads to, locked until the caller's transaction ends; undefined if there is no such link. */
export const lockLinkedAddress = (sql: SqlClient.SqlClient, token_digest: Uint8Array, now: Timestamp) =>
  confirmedRows.first(sql`
    SELECT asked.org_id, asked.address, asked.key_id
    FROM email_verification_links AS link
    JOIN email_addresses AS asked USING (org_id, address)
    WHERE link.token_digest = ${token_digest}
      AND link.expires_at > ${toDate(now)}::timestamptz
    FOR UPDATE OF asked
  `)

/** Deletes every link to an address. Returns false, and the caller must change nothing, if the given one was used meanwhile. */
export const consumeLinks = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { address, org_id }: { readonly org_id: OrgId; readonly address: string },
  token_digest: Uint8Array
) {
  const used = yield* sql`
    DELETE FROM email_verification_links
    WHERE org_id = ${org_id}
      AND address = ${address}
      AND token_digest = ${token_digest}
    RETURNING 1 AS used
  `
  if (used.length === 0) return false
  yield* sql`
    DELETE FROM email_verification_links
    WHERE org_id = ${org_id}
      AND address = ${address}
  `
  return true
})

/** Records that the owner of a new key's address confirmed it, by the link of an invitation. */
export const upsertConfirmed = (
  sql: SqlClient.SqlClient,
  { event_id, key_id, now, org_id }: KeyRef & { readonly event_id: EventId; readonly now: Timestamp }
) => sql`
  INSERT INTO email_addresses (
    org_id, address, event_id, key_id, requested_at, requests_full_at, verified_at
  )
  SELECT
    org_id, ${mailbox(sql)}, ${event_id}, key_id, ${toDate(now)}::timestamptz, ${toDate(now)}::timestamptz,
    ${toDate(now)}::timestamptz
  FROM api_keys
  WHERE org_id = ${org_id}
    AND key_id = ${key_id}
    AND email IS NOT NULL
  ON CONFLICT (org_id, address) DO UPDATE
  SET verified_at = excluded.verified_at
`

/** Records that the owner of an address confirmed it. */
export const updateConfirmed = (
  sql: SqlClient.SqlClient,
  { address, org_id }: { readonly org_id: OrgId; readonly address: string },
  now: Timestamp
) => sql`
  UPDATE email_addresses
  SET verified_at = ${toDate(now)}
  WHERE org_id = ${org_id}
    AND address = ${address}
`
