import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ApprovalId, KeyId, OrgId } from "../../../domain/Ids.ts"
import { Preset, Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { textArray } from "../../store/pgArrays.ts"
import { countOf, rowsOf } from "../../store/rows.ts"
import { sameHuman } from "../identityMakers.ts"
import type { KeyRef } from "../KeyRef.ts"
import { mailbox } from "../mailbox.ts"

/** The subject of an identity provider. */
export interface Subject {
  readonly issuer: string
  readonly subject: string
}

const PersonRow = Schema.Struct({
  org_id: OrgId,
  key_id: KeyId,
  name: Schema.String,
  preset: Schema.NullOr(Preset),
  scopes: Schema.NullOr(Schema.Array(Scope)),
  groups: Schema.Array(Schema.String),
  email: Schema.NullOr(Schema.String),
  expires_at: Schema.NullOr(TimestampFromDate),
  revoked_at: Schema.NullOr(TimestampFromDate),
  blocked_at: Schema.NullOr(TimestampFromDate)
})
export type PersonRow = typeof PersonRow.Type

const personRows = rowsOf(PersonRow)

/** The person's rows, one for each organization that the person ever had access to. */
export const findPerson = (sql: SqlClient.SqlClient, { issuer, subject }: Subject) =>
  personRows.all(sql`
    SELECT people.org_id, people.key_id, name, preset, scopes, groups, email, expires_at, revoked_at, blocked_at
    FROM people
      JOIN api_keys USING (org_id, key_id)
    WHERE people.issuer = ${issuer}
      AND people.subject = ${subject}
  `)

const identityRows = rowsOf(Schema.Struct({ org_id: OrgId, key_id: KeyId, name: Schema.String }))

/** Most identities with one session of the provider: a person has one in each organization. */
const MAX_OF_SESSION = 100

/** The people who signed in with a session of the provider. */
export const findPeopleOfSession = (sql: SqlClient.SqlClient, issuer: string, session: string) =>
  identityRows.all(sql`
    SELECT DISTINCT people.org_id, people.key_id, name
    FROM console_sessions
      JOIN people USING (org_id, key_id)
      JOIN api_keys USING (org_id, key_id)
    WHERE provider_session = ${session}
      AND people.issuer = ${issuer}
    LIMIT ${MAX_OF_SESSION}
  `)

/** The number of people of an organization, counted up to `limit`. */
export const countPeople = (sql: SqlClient.SqlClient, org_id: OrgId, limit: number) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM (SELECT 1 FROM people WHERE org_id = ${org_id} LIMIT ${limit}) AS counted
  `)

/** Records that a person exists, or signed in again. */
export const upsertPerson = (
  sql: SqlClient.SqlClient,
  { key_id, org_id }: KeyRef,
  { issuer, subject }: Subject,
  now: Timestamp
) => sql`
  INSERT INTO people (org_id, key_id, issuer, subject, signed_in_at)
  VALUES (${org_id}, ${key_id}, ${issuer}, ${subject}, ${toDate(now)})
  ON CONFLICT (org_id, key_id) DO UPDATE SET signed_in_at = excluded.signed_in_at
`

/** Replaces a person's name, rights and address, and gives access again that had ended. */
export const updateAccess = (
  sql: SqlClient.SqlClient,
  { key_id, org_id }: KeyRef,
  access: Pick<PersonRow, "name" | "preset" | "scopes" | "groups" | "email"> & {
    readonly expires_at: Timestamp
    readonly rights_changed_at: Timestamp | null
  }
) => sql`
  UPDATE api_keys
  SET name = ${access.name},
    preset = ${access.preset},
    scopes = ${access.scopes === null ? null : textArray(access.scopes)}::text[],
    groups = ${textArray(access.groups)}::text[],
    email = ${access.email},
    expires_at = ${toDate(access.expires_at)},
    rights_changed_at = coalesce(
      ${access.rights_changed_at === null ? null : toDate(access.rights_changed_at)}::timestamptz, rights_changed_at
    ),
    revoked_at = NULL,
    revocation_reason = NULL
  WHERE org_id = ${org_id}
    AND key_id = ${key_id}
`

const sameHumanRows = rowsOf(Schema.Struct({ keys: Schema.Array(KeyId) }))

/** The keys and other people with the verified address of a person. */
export const findSameHuman = (sql: SqlClient.SqlClient, { key_id, org_id }: KeyRef) =>
  Effect.map(
    sameHumanRows.first(sql`
      SELECT ${sameHuman(sql)} AS keys
      FROM api_keys
      WHERE org_id = ${org_id}
        AND key_id = ${key_id}
    `),
    (row) => row?.keys ?? []
  )

const decisionRows = rowsOf(Schema.Struct({ approval_id: ApprovalId }))

/** Newest decisions that are searched for those in effect, and most that are listed. */
const MAX_DECISIONS = 10_000
const MAX_LISTED_DECISIONS = 100

/** The newest approvals that these people and keys gave, alone or among others, and whose steps have no outcome yet. */
export const findOpenDecisions = (sql: SqlClient.SqlClient, org_id: OrgId, keys: ReadonlyArray<KeyId>) =>
  Effect.map(
    decisionRows.all(sql`
      SELECT DISTINCT approvals.approval_id
      FROM (
        SELECT org_id, target_id AS approval_id
        FROM audit_log
        WHERE org_id = ${org_id}
          AND actor_id = ANY (${textArray(keys)})
          AND action IN ('approval.approved', 'approval.vote_recorded')
        ORDER BY entry_id DESC
        LIMIT ${MAX_DECISIONS}
      ) AS given
        JOIN approvals USING (org_id, approval_id)
        JOIN governed_steps USING (org_id, session_id, step_id)
      WHERE approvals.status IN ('pending', 'approved')
        AND governed_steps.outcome_status IS NULL
      ORDER BY approvals.approval_id DESC
      LIMIT ${MAX_LISTED_DECISIONS}
    `),
    (rows) => rows.map(({ approval_id }) => approval_id)
  )

/** Records that the identity provider has verified the person's address. No link was requested for it. */
export const confirmAddress = (
  sql: SqlClient.SqlClient,
  { event_id, key_id, org_id }: KeyRef & { readonly event_id: string },
  now: Timestamp
) => sql`
  INSERT INTO email_addresses (org_id, address, event_id, key_id, requested_at, requests_full_at, verified_at)
  SELECT org_id, ${mailbox(sql)}, ${event_id}, key_id, 'epoch', ${toDate(now)}, ${toDate(now)}
  FROM api_keys
  WHERE org_id = ${org_id}
    AND key_id = ${key_id}
    AND email IS NOT NULL
  ON CONFLICT (org_id, address) DO UPDATE
  SET verified_at = excluded.verified_at
  WHERE email_addresses.verified_at IS NULL
`
