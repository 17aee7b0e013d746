import { DateTime, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { exponentialRetryPolicy } from "../../../domain/delivery/RetryPolicy.ts"
import { renderApprovalEmail } from "../../../domain/approvals/ApprovalEmail.ts"
import { DEFAULT_QUORUM } from "../../../domain/approvals/Quorum.ts"
import { type AttemptOutcome, destinationVerdict } from "../../../domain/delivery/DeliveryState.ts"
import { DeliveryId } from "../../../domain/Ids.ts"
import type { Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp } from "../../../domain/Time.ts"
import { renderAdminNotice } from "../../../domain/identity/AdminNotice.ts"
import { invitationLink } from "../../../domain/identity/InvitationLink.ts"
import { renderInvitationEmail } from "../../../domain/identity/InvitationEmail.ts"
import { renderVerificationEmail } from "../../../domain/identity/VerificationEmail.ts"
import {
  generateLinkToken,
  LINK_LIFETIME,
  linkTokenDigest,
  verificationLink
} from "../../../domain/identity/VerificationLink.ts"
import {
  type Channel,
  type ChannelPolicy,
  defaultChannelPolicy,
  type DeliveryRef
} from "../../delivery/Delivery.ts"
import { refuse, type SendAttempt } from "../../delivery/Channel.ts"
import { expireEvents } from "../../delivery/expireEvents.ts"
import { findVerificationMail, insertLink } from "../../identity/EmailAddresses.ts"
import { VerificationPolicy } from "../../identity/VerificationPolicy.ts"
import { LimitUse } from "../../observability/LimitUse.ts"
import { findInvitationMail, insertInvitationLink } from "../Invitations/rows.ts"
import { makeAddressLimit } from "./makeAddressLimit.ts"
import { loadMail, type LoadedMail, loadNotice } from "./rows.ts"
import { MAX_CONNECTIONS } from "./Smtp.ts"
import { type Mail, MailTransport, noMailServer } from "../MailTransport.ts"
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
 * for an approval that was decided in the meantime, nor to the holder of a key that was revoked. Verification emails
 * take the same way.
 */
export const make = Effect.fnUntraced(function* ({ mailsPerHour = 0, policy, publicUrl }: MailOptions) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const transport = yield* MailTransport
  const verifiedOnly = (yield* VerificationPolicy).emails
  const host = new URL(publicUrl).hostname
  const withinLimit = makeAddressLimit(mailsPerHour, yield* LimitUse)
  let serverFault: string | null = null

  /** Logs when the mail server starts to fail, fails differently, or works again, and not every attempt. */
  const logTransition = (outcome: AttemptOutcome) => {
    if (destinationVerdict(outcome) === "ignored") return Effect.void
    const fault = outcome._tag === "Retry" && outcome.fault !== "delivery" ? outcome.error : null
    if (fault === serverFault) return Effect.void
    serverFault = fault
    return fault === null
      ? Effect.logInfo("The mail server accepts mail again")
      : Effect.logWarning(`Email to reviewers is delayed: ${fault}`)
  }

  /** Sends an email within the limit of its address. The message id is the same for every attempt. */
  const sendMail = ({ event_id, org_id }: DeliveryRef, mail: Omit<Mail, "messageId">): SendAttempt => {
    const sent = withinLimit(org_id, mail.to, transport.send({ ...mail, messageId: `<${event_id}@${host}>` }))
    return () => Effect.tap(sent, logTransition)
  }

  const load: Channel["load"] = Effect.fnUntraced(function* (ref) {
    const now = DateTime.makeUnsafe(clock.millisUnsafe())
    const found = yield* loadMail(sql, now, ref.org_id, ref.event_id, verifiedOnly)
    if (transport.server === undefined) return () => noMailServer
    if (Option.isNone(found))
      return (
        (yield* loadAdminNotice(ref, now)) ??
        (yield* loadInvitation(ref, now)) ??
        (yield* loadVerification(ref, now))
      )
    const obsolete = whyObsolete(found.value)
    if (obsolete !== null) return refuse(obsolete)
    const { email, key_name, occurred_at, organization, quorum, type, votes, ...row } = found.value
    const approval = { ...row, quorum: quorum ?? DEFAULT_QUORUM, votes: votes ?? [] }
    return sendMail(ref, {
      ...renderApprovalEmail({ type, approval, organization, key: key_name, publicUrl }),
      to: email ?? "",
      thread: `<${approval.approval_id}@${host}>`,
      date: new Date(occurred_at.epochMilliseconds)
    })
  })

  /** A notice to an admin; undefined if this is no such email. */
  const loadAdminNotice = Effect.fnUntraced(function* (ref: DeliveryRef, now: Timestamp) {
    const found = yield* loadNotice(sql, now, ref.org_id, ref.event_id, verifiedOnly)
    if (found === undefined) return undefined
    const { email, key_name, scopes: _, usable, verified, ...notice } = found
    const fault = whyUnreachable(found, "approvals.admin")
    if (fault !== null || email === null) return refuse(fault ?? "")
    return sendMail(ref, {
      ...renderAdminNotice({ ...notice, key: key_name, publicUrl }),
      to: email,
      thread: null,
      date: new Date(notice.occurred_at.epochMilliseconds)
    })
  })

  /**
   * A verification email. Each attempt has a link of its own, because only digests of their tokens are stored. All of
   * them can be used: an attempt whose result was lost may have arrived.
   */
  const loadVerification = Effect.fnUntraced(function* (ref: DeliveryRef, now: Timestamp) {
    const { event_id, org_id } = ref
    const mail = yield* findVerificationMail(sql, org_id, event_id, now)
    if (mail === undefined) return refuse("the event was removed by retention, or a newer link was requested")
    if (mail.verified) return refuse("the address is already verified")
    if (!mail.in_use) return refuse("the recipient's key was revoked or has expired")
    const token = yield* generateLinkToken
    const expires_at = DateTime.addDuration(now, LINK_LIFETIME)
    const link = { org_id, event_id, token_digest: linkTokenDigest(token), now, expires_at }
    if (!(yield* insertLink(sql, link))) return refuse("the address was verified or removed meanwhile")
    const { address, organization, requested_at } = mail
    return sendMail(ref, {
      ...renderVerificationEmail({
        organization,
        address,
        link: verificationLink(publicUrl, token),
        expires_at
      }),
      to: address,
      thread: null,
      date: new Date(requested_at.epochMilliseconds)
    })
  })

  /** The email of an invitation, with a link of its own for each attempt; undefined if this is no such email. */
  const loadInvitation = Effect.fnUntraced(function* (
    { event_id, org_id, ...ref }: DeliveryRef,
    now: Timestamp
  ) {
    const mail = yield* findInvitationMail(sql, org_id, event_id, now)
    if (mail === undefined) return undefined
    const { address, created_at, expires_at, invitation_id, organization, status } = mail
    if (status !== "pending") return refuse(`the invitation is ${status}`)
    const secret = yield* generateLinkToken
    const token_digest = linkTokenDigest(secret)
    yield* insertInvitationLink(sql, { org_id, invitation_id, token_digest, now })
    return sendMail(
      { ...ref, event_id, org_id },
      {
        ...renderInvitationEmail({
          organization,
          address,
          link: invitationLink(publicUrl, { org_id, secret }),
          expires_at
        }),
        to: address,
        thread: null,
        date: new Date(created_at.epochMilliseconds)
      }
    )
  })

  return {
    name: MAIL,
    ids: DeliveryId,
    policy: policy ?? mailPolicy,
    logsOutages: true,
    load,
    expire: (cutoff, limit, org_id) => expireEvents(sql, "approval_mail", cutoff, limit, org_id)
  } satisfies Channel
})

/** Why an email must not be sent, or not any more; null if it can be sent. */
const whyObsolete = ({ status, type, ...recipient }: LoadedMail): string | null => {
  const fault = whyUnreachable(
    recipient,
    type === "approval.escalated" ? "approvals.admin" : "approvals.decide"
  )
  if (fault !== null) return fault
  return type !== "approval.expired" && status !== "pending" ? "the approval is already closed" : null
}

/** Why the recipient must not be sent email; null if they can be. */
const whyUnreachable = (
  { email, scopes, usable, verified }: Pick<LoadedMail, "email" | "scopes" | "usable" | "verified">,
  scope: Scope
): string | null => {
  if (!usable || email === null) return "the recipient's key was revoked or has expired"
  if (!scopes.includes(scope)) return `the recipient's key does not have the scope ${scope} any more`
  if (!verified) return "the address is not verified"
  return null
}
