import { Context, DateTime, Duration, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { InvitationNotUsable } from "../../api/console/Invitation.ts"
import type { InvitationQuery, NewInvitation } from "../../api/Invitations.ts"
import { notFound } from "../../api/notFound.ts"
import {
  type InsufficientScope,
  type InvalidApiKey,
  type InvalidRequest,
  LimitReached,
  MailNotConfigured,
  NameInUse,
  type NotFound,
  RateLimited
} from "../../api/Problems.ts"
import {
  type Invitation,
  INVITATION_LIFETIME,
  MAX_PENDING_INVITATIONS
} from "../../domain/identity/Invitation.ts"
import { parseInvitationToken } from "../../domain/identity/InvitationLink.ts"
import { linkTokenDigest } from "../../domain/identity/VerificationLink.ts"
import { EventId, InvitationId, type OrgId } from "../../domain/Ids.ts"
import { formatTimestamp, type Timestamp } from "../../domain/Time.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { ApiKeys, type CreatedKey, requireRightsOf } from "../identity/ApiKeys.ts"
import { Audit } from "../identity/Audit.ts"
import { EmailAddresses } from "../identity/EmailAddresses.ts"
import { Organizations } from "../identity/Organizations.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { MAIL, mailDestination } from "./Email/MailChannel.ts"
import {
  findLinked,
  findUse,
  insertInvitation,
  listInvitations,
  revokeInvitation,
  rightsOf,
  toInvitation,
  updateAccepted
} from "./Invitations/rows.ts"
import { MailTransport } from "./MailTransport.ts"

const HOUR = Duration.hours(1)

/** The label of the deliveries of invitations. It has no address, so that the log keeps none that was removed. */
const LABEL = "email.invitation"

/**
 * Invitations by email to use an API key. Accepting one creates the key in the name of the key that invited, with the rights that it has then.
 *
 * ```
 *   pending ── link opened and accepted ──> accepted (the key exists)
 *      ├── revoked by a key ──────────────> revoked
 *      └── seven days ────────────────────> expired
 * ```
 */
export class Invitations extends Context.Service<
  Invitations,
  {
    /** Whether a mail server is configured. */
    readonly isMailConfigured: boolean
    /** Stores an invitation and queues its email. The rights are checked as for a new key. */
    readonly create: (
      input: NewInvitation
    ) => Effect.Effect<
      Invitation,
      | InsufficientScope
      | InvalidRequest
      | InvalidApiKey
      | LimitReached
      | NameInUse
      | MailNotConfigured
      | RateLimited,
      Authorized<"keys.write">
    >
    /** The invitations of the organization, newest first. */
    readonly list: (
      request: InvitationQuery
    ) => Effect.Effect<Page<Invitation, InvitationId>, never, Authorized<"keys.write">>
    /** Ends a pending invitation. The caller needs every right that it gives. Idempotent. */
    readonly revoke: (
      id: InvitationId
    ) => Effect.Effect<void, NotFound | InsufficientScope, Authorized<"keys.write">>
    /** Creates the key of an invitation, once. `token`: that of its link. */
    readonly accept: (token: Redacted.Redacted) => Effect.Effect<CreatedKey, InvitationNotUsable>
  }
>()("countersign/server/notifications/Invitations") {
  static readonly layer = Layer.effect(
    Invitations,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const organizations = yield* Organizations
      const audit = yield* Audit
      const keys = yield* ApiKeys
      const delivery = yield* Delivery
      const addresses = yield* EmailAddresses
      const { server } = yield* MailTransport
      const { verificationLinksPerHour: perHour } = yield* OrganizationLimits

      /** Refuses an invitation beyond the limits of the organization and of the address. Runs under the organization's lock. */
      const requireCapacity = Effect.fnUntraced(function* (
        org_id: OrgId,
        { email, name }: NewInvitation,
        now: Timestamp
      ) {
        const since = DateTime.subtractDuration(now, HOUR)
        const use = yield* Effect.orDie(findUse(sql, org_id, { name, now, since, perHour }))
        if (use === undefined) return
        if (use.pending >= MAX_PENDING_INVITATIONS) {
          return yield* new LimitReached({
            detail: `Too many pending invitations (limit ${MAX_PENDING_INVITATIONS} for each organization). Revoke one first.`
          })
        }
        if (use.name_pending) {
          return yield* new NameInUse({
            detail: "A pending invitation has this name. Choose another, or revoke that invitation first."
          })
        }
        if (perHour > 0 && use.recent >= perHour && use.oldest !== null) {
          const wait = DateTime.distance(now, DateTime.addDuration(use.oldest, HOUR))
          return yield* new RateLimited({
            detail:
              "Too many people of this organization were invited within an hour. Wait before you invite another.",
            retry_after_seconds: Math.max(1, Math.ceil(Duration.toSeconds(wait)))
          })
        }
        const waitMillis = yield* Effect.orDie(addresses.waitForInvitation(org_id, email))
        if (waitMillis > 0) {
          return yield* new RateLimited({
            detail: "Too many links were sent to this address. Wait, and ask its owner to look for them.",
            retry_after_seconds: Math.ceil(waitMillis / 1000)
          })
        }
      })

      return Invitations.of({
        isMailConfigured: server !== undefined,
        create: Effect.fn("Invitations.create")(function* (input) {
          const principal = yield* Authorized("keys.write")
          const { actor, org_id } = principal
          if (server === undefined) {
            return yield* new MailNotConfigured({
              detail:
                "The service has no mail server. The operator configures one by COUNTERSIGN_SMTP_URL and COUNTERSIGN_MAIL_FROM. Create an API key instead."
            })
          }
          return yield* atomically(
            Effect.gen(function* () {
              // Serializes it with other invitations and with new keys, whose names must differ.
              yield* organizations.lockForUpdate(org_id)
              const now = yield* clock.now
              yield* keys.requireCreatable(principal, input)
              yield* requireCapacity(org_id, input, now)
              const row = {
                invitation_id: yield* InvitationId.generate,
                input,
                created_at: now,
                created_by_id: actor.id,
                created_by_name: actor.name,
                expires_at: DateTime.addDuration(now, INVITATION_LIFETIME)
              }
              const event_id = yield* EventId.generate
              yield* insertInvitation(sql, { ...row, org_id, event_id })
              yield* delivery.enqueue([
                { org_id, channel: MAIL, destination_id: mailDestination(server), event_id, label: LABEL }
              ])
              const invitation = toInvitation(
                { ...row, accepted_at: null, key_id: null, revoked_at: null },
                now
              )
              // Without the address: entries of the log never change, and an address is personal data.
              yield* audit.record(principal, "invitation.created", row.invitation_id, {
                name: input.name,
                preset: invitation.preset,
                scopes: invitation.scopes,
                ...(invitation.groups.length === 0 ? {} : { groups: invitation.groups }),
                expires_at: formatTimestamp(row.expires_at)
              })
              return invitation
            })
          )
        }),
        list: Effect.fn("Invitations.list")(function* (request) {
          const { org_id } = yield* Authorized("keys.write")
          const now = yield* clock.now
          const rows = yield* Effect.orDie(listInvitations(sql, org_id, request, now))
          return toPage(
            request,
            rows.map((row) => toInvitation(row, now)),
            ({ id }) => id
          )
        }),
        revoke: Effect.fn("Invitations.revoke")(function* (id) {
          const principal = yield* Authorized("keys.write")
          yield* atomically(
            Effect.gen(function* () {
              // Serializes it with acceptances, which otherwise create a key of an invitation that is revoked meanwhile.
              yield* organizations.lockForUpdate(principal.org_id)
              const found = yield* revokeInvitation(sql, principal.org_id, id, yield* clock.now)
              if (found === undefined) return yield* notFound("invitation")
              // Its failure rolls the revocation back.
              yield* requireRightsOf(rightsOf(found.input), principal)
              if (found.changed) yield* audit.record(principal, "invitation.revoked", id)
            })
          )
        }),
        accept: Effect.fn("Invitations.accept")(function* (text) {
          const token = parseInvitationToken(text)
          if (token === undefined) return yield* notUsable(UNKNOWN)
          const { org_id } = token
          const digest = linkTokenDigest(token.secret)
          const find = Effect.flatMap(clock.now, (now) => findLinked(sql, org_id, digest, now))
          // Before the lock, so that a caller without a link cannot take it.
          if ((yield* Effect.orDie(find)) === undefined) return yield* notUsable(UNKNOWN)
          return yield* atomically(
            Effect.gen(function* () {
              // Serializes acceptances with each other and with revocations, of the invitation and of keys.
              yield* organizations.lockForUpdate(org_id)
              const found = yield* find
              if (found === undefined) return yield* notUsable(UNKNOWN)
              const { created_by_id, created_by_name, event_id, input, invitation_id } = found
              const maker = { org_id, actor: { id: created_by_id, name: created_by_name } }
              const created = yield* keys.createFromInvitation(maker, input, { event_id })
              const { id, name } = created.key
              yield* updateAccepted(sql, org_id, invitation_id, { key_id: id, now: yield* clock.now })
              yield* audit.record({ org_id, actor: { id, name } }, "invitation.accepted", invitation_id, {
                key_id: id
              })
              return created
            })
          ).pipe(
            Effect.catchTag("NAME_IN_USE", () =>
              notUsable("An API key of the organization has got the name of the invitation meanwhile.")
            ),
            Effect.catchTag("LIMIT_REACHED", () => notUsable("The organization has too many API keys.")),
            Effect.catchTag(["INSUFFICIENT_SCOPE", "INVALID_API_KEY", "INVALID_REQUEST"], () =>
              notUsable("The administrator who invited you cannot give these rights any more.")
            )
          )
        })
      })
    })
  )
}

const UNKNOWN = "The link has expired, was used before, was revoked, or is incomplete."

const notUsable = (reason: string) =>
  Effect.fail(
    new InvitationNotUsable({ detail: `${reason} Ask the person who invited you for another invitation.` })
  )
