import { Array as Arr, Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ApprovalTransitionEvent } from "../../domain/approvals/ApprovalEvent.ts"
import { recipientScope, isApprovalEmailType } from "../../domain/approvals/ApprovalEmail.ts"
import { EventId, type OrgId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { MAIL, mailDestination } from "./Email/MailChannel.ts"
import { insertMail, type MailRow, findRecipients } from "./Email/rows.ts"
import type { MailSettings } from "./Email/Smtp.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Mails that are written down by one statement. */
const BATCH = 500

/** Mail to those who decide approvals: the holders of keys that may decide and have an address. */
export class Email extends Context.Service<
  Email,
  {
    /** Whether there is a mail server, and anybody in the organization to write to. */
    readonly hasRecipients: (org_id: OrgId) => Effect.Effect<boolean>
    /** Within the caller's transaction: a mail and its delivery for each event that is told by mail and each recipient. */
    readonly publish: (
      org_id: OrgId,
      moments: Arr.NonEmptyReadonlyArray<ApprovalTransitionEvent>,
      now: Timestamp
    ) => Effect.Effect<void, SqlError.SqlError>
  }
>()("countersign/server/notifications/Email") {
  /** Without settings there is no mail, and no statement is spent on it. */
  static readonly layer = (
    settings: MailSettings | undefined
  ): Layer.Layer<Email, never, Delivery | SqlClient.SqlClient | StoreClock> =>
    settings === undefined
      ? Layer.succeed(Email, {
          hasRecipients: () => Effect.succeed(false),
          publish: () => Effect.void
        })
      : Layer.effect(Email, make(settings))
}

const make = Effect.fnUntraced(function* (settings: MailSettings) {
  const sql = yield* SqlClient.SqlClient
  const delivery = yield* Delivery
  const { now: storeNow } = yield* StoreClock
  const destination_id = mailDestination(settings)

  return Email.of({
    hasRecipients: Effect.fn("Email.hasRecipients")(function* (org_id) {
      const recipients = yield* findRecipients(sql, org_id, yield* storeNow)
      return recipients.length > 0
    }, Effect.orDie),
    publish: Effect.fn("Email.publish")(function* (org_id, moments, now) {
      const told = moments.flatMap(({ approval, event }) =>
        isApprovalEmailType(event) ? [{ approval, event }] : []
      )
      if (told.length === 0) return
      const recipients = yield* Effect.catchTag(findRecipients(sql, org_id, now), "SchemaError", Effect.die)
      const rows = yield* Effect.forEach(
        told.flatMap(({ approval, event }) => {
          const audience = recipientScope(event, approval.stage)
          return recipients
            .filter(({ scopes }) => scopes.includes(audience))
            .map(({ key_id }) => ({ approval_id: approval.approval_id, key_id, type: event }))
        }),
        (mail) =>
          Effect.map(EventId.generate, (event_id): MailRow => ({
            org_id,
            event_id,
            occurred_at: toDate(now),
            ...mail
          }))
      )
      for (const batch of Arr.chunksOf(rows, BATCH)) {
        yield* insertMail(sql, batch)
        yield* delivery.enqueue(
          batch.map(({ approval_id, event_id, type }) => ({
            org_id,
            channel: MAIL,
            destination_id,
            event_id,
            label: `${type} ${approval_id}`
          }))
        )
      }
    })
  })
})
