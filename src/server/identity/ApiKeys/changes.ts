import { DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ApiKeyChange } from "../../../api/ApiKeys.ts"
import { notFound } from "../../../api/notFound.ts"
import { EmailNotVerifiable, KeyEnded, NameInUse, RateLimited } from "../../../api/Problems.ts"
import type { KeyId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { atomic } from "../../store/transaction.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { Audit } from "../Audit.ts"
import type { LinkRequest } from "../EmailAddresses.ts"
import type { Organizations } from "../Organizations.ts"
import type { VerificationLinks } from "../VerificationLinks.ts"
import { requireRightsOf } from "./keyRights.ts"
import { findListedKey, isNameInUse, type KeyRow, toApiKey, updateKey } from "./rows.ts"

/** Dependencies. */
interface Options {
  readonly sql: SqlClient.SqlClient
  readonly clock: StoreClock["Service"]
  readonly organizations: Organizations["Service"]
  readonly audit: Audit["Service"]
  readonly links: VerificationLinks["Service"]
  /** Whether addresses must be verified. */
  readonly verifiedOnly: boolean
}

/** Changes of stored keys: see `ApiKeys.update` and `ApiKeys.verifyEmail`. */
export const makeKeyChanges = ({ audit, clock, links, organizations, sql, verifiedOnly }: Options) => {
  const atomically = atomic(sql)
  return {
    update: Effect.fn("ApiKeys.update")(function* (principal: Principal, id: KeyId, change: ApiKeyChange) {
      const ref = { org_id: principal.org_id, key_id: id }
      const updated = yield* atomically(
        Effect.gen(function* () {
          // Serializes it with new keys, whose names must differ, and with revocations.
          yield* organizations.lockForUpdate(ref.org_id)
          const now = yield* clock.now
          const row = yield* findListedKey(sql, ref, now)
          if (row === undefined) return yield* notFound("key")
          const end = endOf(row, now)
          if (end !== null) return yield* new KeyEnded({ detail: `${end} Create a new key instead.` })
          yield* requireRightsOf(row, principal)
          const { email = row.email, name = row.name } = change
          const [isRenamed, isReaddressed] = [name !== row.name, email !== row.email]
          if (!isRenamed && !isReaddressed) return row
          if (isRenamed && (yield* isNameInUse(sql, ref.org_id, name, now, id))) {
            return yield* new NameInUse({
              detail:
                "Another usable key of this organization has this name. Choose another, or revoke that key first."
            })
          }
          yield* updateKey(sql, ref, { name, email })
          // Beyond the limit of links the address changes nonetheless: a link can be requested later.
          if (verifiedOnly && isReaddressed && email !== null) yield* links.send(ref, { again: false })
          // Without the addresses: entries of the log never change, and an address is personal data.
          yield* audit.record(principal, "key.updated", id, {
            ...(isRenamed ? { name, previous_name: row.name } : {}),
            ...(isReaddressed ? { email: email === null ? "removed" : "changed" } : {})
          })
          return (yield* findListedKey(sql, ref, now)) ?? row
        })
      )
      return toApiKey(updated, verifiedOnly)
    }),
    verifyEmail: Effect.fn("ApiKeys.verifyEmail")(function* (principal: Principal, id: KeyId) {
      const ref = { org_id: principal.org_id, key_id: id }
      const row = yield* atomically(
        Effect.gen(function* () {
          // Serializes it with revocations.
          yield* organizations.lockForUpdate(ref.org_id)
          const now = yield* clock.now
          const row = yield* findListedKey(sql, ref, now)
          if (row === undefined) return yield* notFound("key")
          const obstacle = obstacleToVerification(row, now)
          if (obstacle !== null) return yield* new EmailNotVerifiable({ detail: obstacle })
          const request = yield* links.send(ref, { again: true })
          switch (request._tag) {
            case "NoMailServer":
              return yield* new EmailNotVerifiable({
                detail: "The service has no mail server. The operator configures one by COUNTERSIGN_SMTP_URL."
              })
            case "Refused":
              return yield* tooManyLinks(request)
            case "Requested":
              yield* audit.record(principal, "key.verification_email_requested", id)
              return row
            case "Verified":
            case "LinkSent":
              return row
          }
        })
      )
      return toApiKey(row, verifiedOnly)
    })
  }
}

/** Why a key cannot be used any more; null if it can. */
const endOf = (
  { expires_at, revoked_at }: Pick<KeyRow, "expires_at" | "revoked_at">,
  now: Timestamp
): string | null => {
  if (revoked_at !== null) return "This API key is revoked."
  return expires_at !== null && DateTime.isLessThanOrEqualTo(expires_at, now)
    ? "This API key has expired."
    : null
}

/** Why the email address of a key cannot be verified; null if it can. */
const obstacleToVerification = (
  row: Pick<KeyRow, "email" | "expires_at" | "revoked_at">,
  now: Timestamp
): string | null => {
  if (row.email === null) return "This API key has no email address. Give it one first."
  const end = endOf(row, now)
  return end === null ? null : `${end} Its address is sent no email.`
}

const tooManyLinks = ({ by, waitMillis }: Extract<LinkRequest, { readonly _tag: "Refused" }>) =>
  Effect.fail(
    new RateLimited({
      detail:
        by === "address"
          ? "Too many links were sent to this address. Wait, and ask its owner to look for them."
          : "Too many addresses of this organization were sent a link. Wait before you request another.",
      retry_after_seconds: Math.max(1, Math.ceil(waitMillis / 1000))
    })
  )
