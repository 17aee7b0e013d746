import { Context, DateTime, Duration, Effect, Layer, type Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { chargeTokens, rateLimitWithin, takeToken } from "../../domain/identity/RateLimit.ts"
import { LINK_LIFETIME, linkTokenDigest } from "../../domain/identity/VerificationLink.ts"
import { EventId, type OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { Audit } from "./Audit.ts"
import {
  consumeLinks,
  findAddress,
  findBucket,
  listInvitationTimes,
  listRequestTimes,
  lockLinkedAddress,
  updateConfirmed,
  upsertRequest
} from "./EmailAddresses/rows.ts"
import type { KeyRef } from "./KeyRef.ts"
import { mailboxOf } from "./mailbox.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { Organizations } from "./Organizations.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { reportQuota } from "../observability/reportQuota.ts"
import { atomic, requireTransaction } from "../store/transaction.ts"
import { StoreClock } from "../store/StoreClock.ts"

export { findVerificationMail, insertLink, joinConfirmation, upsertConfirmed } from "./EmailAddresses/rows.ts"

/** Links to one address within an hour, those of invitations included: none would reach a person sooner by more of them. */
const LINKS_PER_ADDRESS_AND_HOUR = 3

const HOUR = Duration.hours(1)
const HOUR_MILLIS = Duration.toMillis(HOUR)

/** The result of a request for a verification link. */
export type LinkRequest =
  /** The email with this event id is to be sent. */
  | { readonly _tag: "Requested"; readonly event_id: EventId }
  /** The owner has confirmed the address. */
  | { readonly _tag: "Verified" }
  /** A link that can still be used was requested before. */
  | { readonly _tag: "LinkSent" }
  /** The limit of the address or of the organization is reached. */
  | { readonly _tag: "Refused"; readonly by: "address" | "organization"; readonly waitMillis: number }

/**
 * The email addresses of keys, and whether their owners confirmed them. A confirmation counts for all keys of one
 * organization with the address, also for later ones, as long as the organization has a key with it, revoked ones
 * included until retention removes them.
 *
 * ```
 *   (no row) ── request ──> asked ── link opened and confirmed ──> verified
 *                            └─ request again, within the limits ─┘ (a new email, same state)
 * ```
 */
export class EmailAddresses extends Context.Service<
  EmailAddresses,
  {
    /**
     * Records the request for a link to the address of a key, within the caller's transaction, which must also queue the
     * email. Without `again`, none is requested while an earlier link can still be used.
     */
    readonly requestLink: (
      key: KeyRef,
      options: { readonly again: boolean }
    ) => Effect.Effect<LinkRequest, SqlError.SqlError>
    /**
     * How long no invitation may be sent to an address, in milliseconds; 0: one may be sent now. Runs under the organization's lock, in the
     * transaction that stores the invitation.
     */
    readonly waitForInvitation: (org_id: OrgId, email: string) => Effect.Effect<number, SqlError.SqlError>
    /** Confirms the address that a link was sent to. Returns false if the link is unknown, expired or was used. */
    readonly confirm: (token: Redacted.Redacted) => Effect.Effect<boolean>
  }
>()("countersign/server/identity/EmailAddresses") {
  static readonly layer = Layer.effect(
    EmailAddresses,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const audit = yield* Audit
      const organizations = yield* Organizations
      const { verificationLinksPerHour: perHour } = yield* OrganizationLimits
      const use = yield* LimitUse
      const addressLimit = rateLimitWithin(LINKS_PER_ADDRESS_AND_HOUR, HOUR_MILLIS)

      /**
       * How long the address gets no other link, in milliseconds; 0 if it can get one. Counts its requests, whose bucket is full at `fullAt`,
       * and the invitations of the last hour. Runs under the organization's lock.
       */
      const waitOfAddress = Effect.fnUntraced(function* (
        org_id: OrgId,
        address: string,
        fullAt: number,
        now: DateTime.Utc
      ) {
        const since = DateTime.subtractDuration(now, HOUR)
        const invited = yield* listInvitationTimes(sql, org_id, address, since, LINKS_PER_ADDRESS_AND_HOUR)
        const millis = now.epochMilliseconds
        const charged = chargeTokens(addressLimit, fullAt, millis, invited.length)
        const { allowed, waitMillis } = takeToken(addressLimit, charged, millis)
        if (allowed) return 0
        use.refused("verification_links")
        const oldest = invited.at(-1)
        // Invitations alone: the next link follows when the oldest one is an hour old.
        return oldest === undefined || invited.length < LINKS_PER_ADDRESS_AND_HOUR
          ? waitMillis
          : oldest + HOUR_MILLIS - millis
      })

      /** How long the organization has to wait, in milliseconds; 0 if it need not. Runs under the organization's lock. */
      const waitOfOrganization = Effect.fnUntraced(function* (org_id: OrgId, now: DateTime.Utc) {
        if (perHour === 0) return 0
        const times = yield* listRequestTimes(sql, org_id, DateTime.subtractDuration(now, HOUR), perHour)
        use.used("verification_links", Math.min(1, (times.length + 1) / perHour))
        yield* reportQuota({
          name: "verification_links",
          limit: perHour,
          remaining: perHour - times.length - 1,
          windowSeconds: HOUR_MILLIS / 1_000
        })
        const [oldest] = times
        return oldest === undefined || times.length < perHour
          ? 0
          : oldest + HOUR_MILLIS - now.epochMilliseconds
      })

      return EmailAddresses.of({
        requestLink: Effect.fn("EmailAddresses.requestLink")(function* (
          key,
          { again }
        ): Effect.fn.Return<LinkRequest, SqlError.SqlError> {
          yield* requireTransaction
          // Serializes the organization's requests: concurrent ones could otherwise exceed the limits.
          yield* organizations.lockForUpdate(key.org_id)
          const now = yield* clock.now
          const found = yield* findAddress(sql, key)
          if (found === undefined) return yield* Effect.die(new Error("The key has no email address"))
          if (found.verified_at !== null) return { _tag: "Verified" }
          const usableUntil =
            found.requested_at === null ? now : DateTime.addDuration(found.requested_at, LINK_LIFETIME)
          if (!again && DateTime.isGreaterThan(usableUntil, now)) return { _tag: "LinkSent" }
          const millis = now.epochMilliseconds
          const fullAt = found.requests_full_at?.epochMilliseconds ?? millis
          const addressWait = yield* waitOfAddress(key.org_id, found.address, fullAt, now)
          if (addressWait > 0) return { _tag: "Refused", by: "address", waitMillis: addressWait }
          const waitMillis = yield* waitOfOrganization(key.org_id, now)
          if (waitMillis > 0) {
            use.refused("verification_links")
            return { _tag: "Refused", by: "organization", waitMillis }
          }
          const event_id = yield* EventId.generate
          yield* upsertRequest(sql, {
            org_id: key.org_id,
            key_id: key.key_id,
            address: found.address,
            event_id,
            requested_at: toDate(now),
            requests_full_at: new Date(Math.ceil(chargeTokens(addressLimit, fullAt, millis, 1)))
          })
          return { _tag: "Requested", event_id }
        }),
        waitForInvitation: Effect.fn("EmailAddresses.waitForInvitation")(function* (org_id, email) {
          yield* requireTransaction
          const now = yield* clock.now
          const address = mailboxOf(email)
          const bucket = yield* findBucket(sql, org_id, address)
          return yield* waitOfAddress(org_id, address, bucket?.requests_full_at.epochMilliseconds ?? 0, now)
        }),
        confirm: Effect.fn("EmailAddresses.confirm")(function* (token) {
          const digest = linkTokenDigest(token)
          const now = yield* clock.now
          return yield* atomically(
            Effect.gen(function* () {
              const found = yield* lockLinkedAddress(sql, digest, now)
              if (found === undefined || !(yield* consumeLinks(sql, found, digest))) return false
              yield* updateConfirmed(sql, found, now)
              yield* audit.record({ org_id: found.org_id, actor: null }, "key.email_verified", found.key_id)
              return true
            })
          )
        })
      })
    })
  )
}
