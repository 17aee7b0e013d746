import { DateTime, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { exponentialRetryPolicy } from "../../../domain/delivery/RetryPolicy.ts"
import { renderApprovalEmail } from "../../../domain/approvals/ApprovalEmail.ts"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import { DeliveryId } from "../../../domain/Ids.ts"
import { type Channel, type ChannelPolicy, defaultChannelPolicy } from "../../delivery/Delivery.ts"
import { refuse } from "../../delivery/Channel.ts"
import { expireEvents } from "../../delivery/expireEvents.ts"
import { LimitUse } from "../../observability/LimitUse.ts"
import { makeAddressLimit } from "./makeAddressLimit.ts"
import { loadMail, type LoadedMail } from "./rows.ts"
import { MAX_CONNECTIONS } from "./Smtp.ts"
import { MailTransport, noMailServer } from "../MailTransport.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** The channel name of mail deliveries, as stored with each delivery. */
export const MAIL = "mail"

/** Dependencies of the mail channel. */
export interface MailOptions {
  /** The base URL of the service, without a trailing slash. */
  readonly publicUrl: string
  /** Emails of one organization to one address within an hour. Default 0: not limited. */
  readonly mailsPerHour?: number
  /** Default: {@link mailPolicy}. */
  readonly policy?: ChannelPolicy
}

/**
 * Retries after 10 s with exponential backoff for two hours: greylisting accepts a message after some minutes, and an older email no longer
 * helps its reader. The cooldown of a failing server is 10 s, doubling to 5 min.
 */
const mailPolicy: ChannelPolicy = {
  ...defaultChannelPolicy,
  retry: exponentialRetryPolicy({
    firstMillis: 10_000,
    factor: 2,
    longestMillis: 1_800_000,
    maxElapsedMillis: 7_200_000,
    jitter: 0.2
  }),
  cooldown: { failureThreshold: 5, firstMillis: 10_000, longestMillis: 300_000 },
  concurrency: MAX_CONNECTIONS,
  slots: MAX_CONNECTIONS,
  deadlineMillis: 10_000
}

/**
 * The destination of all email: the mail server, so that a new server starts with a clean health. All email is in the shard of that name,
 * so that one replica sends all of it and `MAX_CONNECTIONS` holds across replicas. Each organization has a lane of its own in that shard,
 * and does not wait for other organizations' email.
 */
export const mailDestination = (server: string): string => `smtp:${server}`

/**
 * Email to reviewers and admins: a delivery channel. An email is rendered when it is sent, from the current approval and key: none is sent
 * for an approval that was decided in the meantime, nor to the holder of a key that was revoked.
 */
export const make = Effect.fnUntraced(function* ({ mailsPerHour = 0, policy, publicUrl }: MailOptions) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const transport = yield* MailTransport
  const host = new URL(publicUrl).hostname
  const withinLimit = makeAddressLimit(mailsPerHour, yield* LimitUse)
  let serverFault: string | null = null

  /** Logs when the mail server starts to fail, fails differently, or works again, and not every attempt. */
  const logTransition = (outcome: AttemptOutcome) => {
    const fault = outcome._tag === "Retry" && outcome.fault !== "delivery" ? outcome.error : null
    if (fault === serverFault) return Effect.void
    serverFault = fault
    return fault === null
      ? Effect.logInfo("The mail server accepts mail again")
      : Effect.logWarning(`Email to reviewers is delayed: ${fault}`)
  }

  const load: Channel["load"] = (ref) =>
    Effect.map(
      loadMail(sql, DateTime.makeUnsafe(clock.millisUnsafe()), ref.org_id, ref.event_id),
      (found) => {
        if (transport.server === undefined) return noMailServer
        if (Option.isNone(found)) return refuse("the event was removed by retention")
        const obsolete = whyObsolete(found.value)
        if (obsolete !== null) return refuse(obsolete)
        const { email, key_name, occurred_at, organization, type, ...approval } = found.value
        const rendered = renderApprovalEmail({ type, approval, organization, key: key_name, publicUrl })
        return Effect.tap(
          withinLimit(
            ref.org_id,
            email ?? "",
            transport.send({
              ...rendered,
              to: email ?? "",
              messageId: `<${ref.event_id}@${host}>`,
              thread: `<${approval.approval_id}@${host}>`,
              date: new Date(occurred_at.epochMilliseconds)
            })
          ),
          logTransition
        )
      }
    )

  return {
    name: MAIL,
    ids: DeliveryId,
    policy: policy ?? mailPolicy,
    load,
    expire: (cutoff, limit) => expireEvents(sql, "approval_mail", cutoff, limit)
  } satisfies Channel
})

/** Why an email must not be sent any more; null if it can be sent. */
const whyObsolete = ({ email, status, type, usable }: LoadedMail): string | null => {
  if (!usable || email === null) return "the recipient's key was revoked or has expired"
  return type !== "approval.expired" && status !== "pending" ? "the approval is already closed" : null
}
