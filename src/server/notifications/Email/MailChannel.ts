import { Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { exponentialRetryPolicy } from "../../../domain/delivery/RetryPolicy.ts"
import { renderApprovalEmail } from "../../../domain/approvals/ApprovalEmail.ts"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import { DeliveryId } from "../../../domain/Ids.ts"
import { type Channel, type ChannelPolicy, defaultChannelPolicy } from "../../delivery/Delivery.ts"
import { refuse } from "../../delivery/Delivery/Channel.ts"
import { expireEvents } from "../../delivery/Delivery/expireEvents.ts"
import { loadMail, type LoadedMail } from "./rows.ts"
import { MAX_CONNECTIONS, type MailSettings, makeSmtp } from "./Smtp.ts"

/** The name that deliveries of mail carry. */
export const MAIL = "mail"

/** What mail is sent with. */
export interface MailOptions {
  /** Undefined: there is no mail server. What was queued while there was one is refused. */
  readonly mail: MailSettings | undefined
  /** How the outside reaches the service, without a slash at its end. */
  readonly publicUrl: string
  /** Default: {@link mailPolicy}. */
  readonly policy?: ChannelPolicy
}

/**
 * Tried again after 10 s, then after twice as long each time, for two hours: who greylists lets a mail through after some minutes, and
 * a notice that is older helps nobody. A server that fails is left alone for 10 s, doubling to 5 min.
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
 * The destination that an organization's mail is queued for: the server, so that another one begins with a clean slate. All mail lies
 * in the one shard of that name, so that one process has the server to itself and its connections are counted over all processes; each
 * organization has a lane of its own there, and waits for no other's mail.
 */
export const mailDestination = ({ url }: MailSettings): string => {
  const { host } = new URL(Redacted.value(url))
  return `smtp:${host}`
}

/**
 * Mail to reviewers and admins. A mail is written when it is sent, from the approval and the key as they stand then: an approval that
 * was decided meanwhile asks for nobody's time, and who lost the key learns nothing more.
 */
export const make = Effect.fnUntraced(function* ({ mail, policy, publicUrl }: MailOptions) {
  const sql = yield* SqlClient.SqlClient
  const smtp = mail === undefined ? undefined : yield* makeSmtp(mail)
  const host = new URL(publicUrl).hostname
  /** What the log was last told of the server: each trouble is told once, and its end. */
  let trouble: string | null = null

  const tell = (outcome: AttemptOutcome) => {
    const now = outcome._tag === "Retry" && outcome.fault !== "delivery" ? outcome.error : null
    if (now === trouble) return Effect.void
    trouble = now
    return now === null
      ? Effect.logInfo("The mail server takes mail again")
      : Effect.logWarning(`Mail to reviewers waits: ${now}`)
  }

  const load: Channel["load"] = (parcel) =>
    Effect.map(loadMail(sql, parcel.org_id, parcel.event_id), (found) => {
      if (smtp === undefined) return refuse("no mail server is set")
      if (Option.isNone(found)) return refuse("the event is not kept any more")
      const stale = staleness(found.value)
      if (stale !== null) return refuse(stale)
      const { email, key_name, occurred_at, organization, type, ...approval } = found.value
      const notice = renderApprovalEmail({ type, approval, organization, key: key_name, publicUrl })
      return Effect.tap(
        smtp.send({
          ...notice,
          to: email ?? "",
          messageId: `<${parcel.event_id}@${host}>`,
          thread: `<${approval.approval_id}@${host}>`,
          date: new Date(occurred_at.epochMilliseconds)
        }),
        tell
      )
    })

  return {
    name: MAIL,
    ids: DeliveryId,
    policy: policy ?? mailPolicy,
    load,
    expire: (cutoff, limit) => expireEvents(sql, "approval_mail", cutoff, limit)
  } satisfies Channel
})

/** Why a mail is not sent any more; null: it is. */
const staleness = ({ email, status, type, usable }: LoadedMail): string | null => {
  if (!usable || email === null) return "the recipient's key was revoked or has expired"
  return type !== "approval.expired" && status !== "pending" ? "the approval waits for nobody any more" : null
}
