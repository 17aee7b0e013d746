import { Array as Arr, Effect, Option, Schema, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { joinConfirmation } from "../../identity/EmailAddresses.ts"
import { grantedScopes } from "../../identity/grantedScopes.ts"
import { Approval } from "../../../domain/approvals/Approval.ts"
import { ApprovalEmailType, type RecipientGroups } from "../../../domain/approvals/ApprovalEmail.ts"
import { ReviewerStopReason } from "../../../domain/approvals/Reviewer.ts"
import { Vote } from "../../../domain/approvals/Quorum.ts"
import { type ApprovalId, type AuditEntryId, type EventId, KeyId, type OrgId } from "../../../domain/Ids.ts"
import { AdminNoticeType } from "../../../domain/identity/AdminNotice.ts"
import { Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { foldCase } from "../../store/foldCase.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** The most recipients of one event. */
const MAX_RECIPIENTS = 100

/** Keys with this scope and an email address are recipients. */
const RECIPIENT_SCOPE: Scope = "approvals.decide"

const recipientRows = rowsOf(
  Schema.Struct({
    key_id: KeyId,
    scopes: Schema.Array(Scope),
    verified: Schema.Boolean,
    link_sent: Schema.Boolean
  })
)

/**
 * The usable keys that have an email address and can decide approvals: one key for each address. Admins come first, because
 * only they are notified of escalated approvals. Unless addresses must be verified (`verifiedOnly`), all count as
 * verified. With `members`, only keys in these groups. `link_sent`: the address was sent a link that can still be used.
 */
export const findRecipients = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  now: Timestamp,
  verifiedOnly: boolean,
  members: RecipientGroups | null = null
) =>
  recipientRows.all(sql`
    SELECT key_id, scopes, verified, link_sent
    FROM (
      SELECT DISTINCT ON (address) *
      FROM (
        SELECT
          key_id, ${sql.literal(foldCase("email"))} AS address, ${grantedScopes(sql)} AS scopes,
          'approvals.admin' = ANY(${grantedScopes(sql)}) AS admin,
          ${
            verifiedOnly
              ? sql`confirmation.verified_at IS NOT NULL AS verified, coalesce(confirmation.link_sent, false) AS link_sent`
              : sql`true AS verified, false AS link_sent`
          }
        FROM api_keys
        ${verifiedOnly ? joinConfirmation(sql, now) : sql``}
        WHERE org_id = ${org_id}
          AND email IS NOT NULL
          AND revoked_at IS NULL
          AND (expires_at IS NULL OR expires_at > ${toDate(now)})
          AND ${RECIPIENT_SCOPE} = ANY(${grantedScopes(sql)})
          ${
            members === null
              ? sql``
              : sql`AND (
                  groups && ${textArray(members.groups)}::text[]
                  OR (${members.admins}::boolean AND 'approvals.admin' = ANY(${grantedScopes(sql)}))
                )`
          }
      ) AS keys
      ORDER BY address, admin DESC, verified DESC, key_id
    ) AS recipients
    ORDER BY admin DESC, address
    LIMIT ${MAX_RECIPIENTS}::int
  `)

/** A row of `approval_mail`: an event, and the key of its recipient. It is about an approval or about an entry of the audit log. */
export interface MailRow {
  readonly org_id: OrgId
  readonly event_id: EventId
  readonly type: ApprovalEmailType | AdminNoticeType
  readonly approval_id: ApprovalId | null
  readonly entry_id: AuditEntryId | null
  readonly key_id: KeyId
  readonly occurred_at: Date
}

/** Inserts emails. */
export const insertMail = (sql: SqlClient.SqlClient, rows: Arr.NonEmptyReadonlyArray<MailRow>) =>
  sql`INSERT INTO approval_mail ${sql.insert(Arr.map(rows, (row) => ({ ...row })))}`

/** The key that an email goes to. */
const recipient = {
  key_name: Schema.String,
  email: Schema.NullOr(Schema.String),
  usable: Schema.Boolean,
  scopes: Schema.Array(Scope),
  verified: Schema.Boolean
}

const { action_class, approval_id, decision_source, outcome, session_id, stage, status, step_id } =
  Approval.fields
const { quorum, task_id, timeout_action, tool } = Approval.fields
const Loaded = Schema.Struct({
  type: ApprovalEmailType,
  occurred_at: TimestampFromDate,
  approval_id,
  session_id,
  step_id,
  task_id,
  tool,
  action_class,
  status,
  stage,
  requested_at: TimestampFromDate,
  expires_at: TimestampFromDate,
  escalation_deadline_at: Schema.NullOr(TimestampFromDate),
  timeout_action,
  /** Null: the default. */
  quorum: Schema.NullOr(quorum),
  votes: Schema.NullOr(Schema.Array(Schema.Struct(Struct.pick(Vote.fields, ["groups", "stage"])))),
  outcome,
  decision_source,
  organization: Schema.String,
  ...recipient
})
const loadedRows = rowsOf(Loaded)

/** Whether an email's key can still be used, what it may do now, and whether its address may be sent email. */
const recipientState = (sql: SqlClient.SqlClient, now: Timestamp, verifiedOnly: boolean) => sql`
  api_keys.name AS key_name, api_keys.email,
  api_keys.revoked_at IS NULL
    AND (api_keys.expires_at IS NULL OR api_keys.expires_at > ${toDate(now)}::timestamptz) AS usable,
  ${grantedScopes(sql)} AS scopes,
  ${verifiedOnly ? sql`confirmation.verified_at IS NOT NULL` : sql`true`} AS verified`

const noticeRows = rowsOf(
  Schema.Struct({
    type: AdminNoticeType,
    occurred_at: TimestampFromDate,
    organization: Schema.String,
    author: Schema.String,
    target_name: Schema.String,
    previous_url_hint: Schema.NullOr(Schema.String),
    target_id: Schema.String,
    failing_since: Schema.NullOr(TimestampFromDate),
    stopped_reason: Schema.NullOr(ReviewerStopReason),
    ...recipient
  })
)

/** An email to an admin with its entry of the audit log; undefined if it is another email, or it, its endpoint or its task was removed. */
export const loadNotice = (
  sql: SqlClient.SqlClient,
  now: Timestamp,
  org_id: OrgId,
  event_id: EventId,
  verifiedOnly: boolean
) =>
  noticeRows.first(sql`
    SELECT
      m.type, m.occurred_at, o.name AS organization, coalesce(l.actor_name, 'the operator') AS author,
      coalesce(l.detail->>'url_hint', p.url_hint, t.name) AS target_name, l.detail->>'previous_url_hint' AS previous_url_hint,
      l.target_id, (l.detail->>'failing_since')::timestamptz AS failing_since, l.detail->>'stopped_reason' AS stopped_reason,
      ${recipientState(sql, now, verifiedOnly)}
    FROM approval_mail m
    JOIN audit_log l ON l.org_id = m.org_id AND l.entry_id = m.entry_id
    LEFT JOIN notification_endpoints p ON p.org_id = m.org_id AND p.endpoint_id = l.target_id
    LEFT JOIN tasks t ON t.org_id = m.org_id AND t.task_id = l.target_id
    JOIN api_keys ON api_keys.org_id = m.org_id AND api_keys.key_id = m.key_id
    JOIN organizations o ON o.org_id = m.org_id
    ${verifiedOnly ? joinConfirmation(sql, now) : sql``}
    WHERE m.org_id = ${org_id}
      AND m.event_id = ${event_id}
      AND coalesce(l.detail->>'url_hint', p.url_hint, t.name) IS NOT NULL
  `)

/**
 * An email with the current state of its approval, key and organization; none if it was removed. Unless addresses must
 * be verified (`verifiedOnly`), all count as verified.
 */
export const loadMail = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  now: Timestamp,
  org_id: OrgId,
  event_id: EventId,
  verifiedOnly: boolean
) {
  const row = yield* loadedRows.first(sql`
    SELECT
      m.type, m.occurred_at, a.approval_id, a.session_id, a.step_id, a.task_id, a.tool, a.action_class, a.status,
      a.stage, a.requested_at, a.expires_at, a.escalation_deadline_at, a.timeout_action, a.quorum,
      a.votes, a.outcome, a.decision_source, o.name AS organization, ${recipientState(sql, now, verifiedOnly)}
    FROM approval_mail m
    JOIN approvals a ON a.org_id = m.org_id AND a.approval_id = m.approval_id
    JOIN api_keys ON api_keys.org_id = m.org_id AND api_keys.key_id = m.key_id
    JOIN organizations o ON o.org_id = m.org_id
    ${verifiedOnly ? joinConfirmation(sql, now) : sql``}
    WHERE m.org_id = ${org_id}
      AND m.event_id = ${event_id}
  `)
  return Option.fromUndefinedOr(row)
})
export type LoadedMail = Option.Option.Value<Effect.Success<ReturnType<typeof loadMail>>>
