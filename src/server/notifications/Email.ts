import { Array as Arr, Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ApprovalTransitionEvent } from "../../domain/approvals/ApprovalEvent.ts"
import { isApprovalEmailType, recipientGroups, recipientScope } from "../../domain/approvals/ApprovalEmail.ts"
import type { AdminNoticeType } from "../../domain/identity/AdminNotice.ts"
import { type AuditEntryId, EventId, type OrgId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { MAIL, mailDestination } from "./Email/MailChannel.ts"
import { insertMail, type MailRow, findRecipients } from "./Email/rows.ts"
import { MailTransport } from "./MailTransport.ts"
import { VerificationLinks } from "../identity/VerificationLinks.ts"
import { VerificationPolicy } from "../identity/VerificationPolicy.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Emails that one statement inserts. */
const INSERT_BATCH = 500

/** Email to reviewers and admins: the holders of keys that can decide approvals and have an email address. */
export class Email extends Context.Service<
  Email,
  {
    /** Whether a mail server is configured. */
    readonly enabled: boolean
    /** Whether a mail server is configured and the organization has a recipient, with a verified address if that is required. */
    readonly hasRecipients: (org_id: OrgId) => Effect.Effect<boolean>
    /**
     * Queues an email to each recipient of each event that is sent by email, within the caller's transaction. Where
     * addresses must be verified, a recipient whose address is not gets a link instead, unless it has a usable one; the
     * email fails when it is due, unless the address was verified meanwhile.
     */
    readonly publish: (
      org_id: OrgId,
      events: Arr.NonEmptyReadonlyArray<ApprovalTransitionEvent>,
      now: Timestamp
    ) => Effect.Effect<void, SqlError.SqlError>
    /** Queues an email about an entry of the audit log to each admin with an address, within the caller's transaction. */
    readonly notifyAdmins: (
      org_id: OrgId,
      type: AdminNoticeType,
      entry_id: AuditEntryId
    ) => Effect.Effect<void>
  }
>()("countersign/server/notifications/Email") {
  /** Without a mail server no email is sent and no statement is run. */
  static readonly layer: Layer.Layer<
    Email,
    never,
    MailTransport | Delivery | SqlClient.SqlClient | StoreClock | VerificationLinks | VerificationPolicy
  > = Layer.effect(
    Email,
    Effect.flatMap(MailTransport, ({ server }) => (server === undefined ? disabled : make(server)))
  )
}

const disabled = Effect.sync(() =>
  Email.of({
    enabled: false,
    hasRecipients: () => Effect.succeed(false),
    publish: () => Effect.void,
    notifyAdmins: () => Effect.void
  })
)

const make = Effect.fnUntraced(function* (server: string) {
  const sql = yield* SqlClient.SqlClient
  const delivery = yield* Delivery
  const clock = yield* StoreClock
  const verifiedOnly = (yield* VerificationPolicy).emails
  const links = yield* VerificationLinks
  const destination_id = mailDestination(server)

  const queue = Effect.fnUntraced(function* (org_id: OrgId, rows: ReadonlyArray<MailRow>) {
    for (const batch of Arr.chunksOf(rows, INSERT_BATCH)) {
      yield* insertMail(sql, batch)
      yield* delivery.enqueue(
        batch.map(({ approval_id, entry_id, event_id, type }) => ({
          org_id,
          channel: MAIL,
          destination_id,
          event_id,
          label: `${type} ${approval_id ?? entry_id ?? ""}`
        }))
      )
    }
  })

  return Email.of({
    enabled: true,
    hasRecipients: Effect.fn("Email.hasRecipients")(function* (org_id) {
      const recipients = yield* findRecipients(sql, org_id, yield* clock.now, verifiedOnly)
      return recipients.some(({ verified }) => verified)
    }, Effect.orDie),
    publish: Effect.fn("Email.publish")(function* (org_id, events, now) {
      const mailed = events.flatMap(({ approval, event }) =>
        isApprovalEmailType(event) ? [{ approval, event }] : []
      )
      if (mailed.length === 0) return
      // One read for each set of groups that may decide: at most as many as the rules have quorums.
      const byGroups = Arr.groupBy(mailed, ({ approval }) => JSON.stringify(recipientGroups(approval)))
      const asked = yield* Effect.forEach(Object.values(byGroups), (mailed) =>
        Effect.map(
          findRecipients(sql, org_id, now, verifiedOnly, recipientGroups(Arr.headNonEmpty(mailed).approval)),
          (recipients) => ({ recipients, mailed })
        )
      )
      const rows = yield* Effect.forEach(
        asked.flatMap(({ mailed, recipients }) =>
          mailed.flatMap(({ approval, event }) => {
            const scope = recipientScope(event, approval.stage)
            return recipients
              .filter(({ scopes }) => scopes.includes(scope))
              .map(({ key_id }) => ({
                approval_id: approval.approval_id,
                entry_id: null,
                key_id,
                type: event
              }))
          })
        ),
        (mail) =>
          Effect.map(EventId.generate, (event_id): MailRow => ({
            org_id,
            event_id,
            occurred_at: toDate(now),
            ...mail
          }))
      )
      const mailedKeys = new Set(rows.map(({ key_id }) => key_id))
      const recipients = new Map(
        asked.flatMap(({ recipients }) => recipients.map((one) => [one.key_id, one]))
      )
      for (const { key_id, link_sent, verified } of recipients.values()) {
        if (verified || link_sent || !mailedKeys.has(key_id)) continue
        const request = yield* links.send({ org_id, key_id }, { again: false })
        // The other addresses get theirs with a later event: an approval must not cost a query for each.
        if (request._tag === "Refused" && request.by === "organization") break
      }
      yield* queue(org_id, rows)
    }),
    notifyAdmins: Effect.fn("Email.notifyAdmins")(function* (org_id, type, entry_id) {
      const now = yield* clock.now
      const admins = (yield* findRecipients(sql, org_id, now, verifiedOnly)).filter(
        ({ scopes, verified }) => verified && scopes.includes("approvals.admin")
      )
      const rows = yield* Effect.forEach(admins, ({ key_id }) =>
        Effect.map(EventId.generate, (event_id): MailRow => ({
          org_id,
          event_id,
          type,
          approval_id: null,
          entry_id,
          key_id,
          occurred_at: toDate(now)
        }))
      )
      yield* queue(org_id, rows)
    }, Effect.orDie)
  })
})
