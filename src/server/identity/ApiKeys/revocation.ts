import { Effect, Redacted, Result } from "effect"
import type { SqlClient } from "effect/sql"
import type { MadeKeys } from "../../../api/ApiKeys.ts"
import { notFound } from "../../../api/notFound.ts"
import { LastAdminKey } from "../../../api/Problems.ts"
import type { RevocationReason } from "../../../domain/identity/ApiKey.ts"
import * as ApiKeyFormat from "../../../domain/identity/ApiKeyFormat.ts"
import type { KeyId } from "../../../domain/Ids.ts"
import { scopes as allScopes } from "../../../domain/identity/Scope.ts"
import { atomic } from "../../store/transaction.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { Audit, Author } from "../Audit.ts"
import type { Organizations } from "../Organizations.ts"
import type { Revocations } from "../Revocations.ts"
import { findAdminKeys, findKeyWithMade, findUsableKeys, revokeKeys } from "./rows.ts"

/** What becomes of the keys that a revoked key created. */
export interface RevokeOptions {
  /** `revoke` also revokes the keys that the key created, and the keys that those created in turn; `keep` leaves them usable. */
  readonly made_keys: MadeKeys
}

/** Dependencies. */
interface Options {
  readonly sql: SqlClient.SqlClient
  readonly clock: StoreClock["Service"]
  readonly organizations: Organizations["Service"]
  readonly audit: Audit["Service"]
  readonly revocations: Revocations["Service"]
}

/** Revokes keys: see `ApiKeys.revoke` and `ApiKeys.revokeLeaked`. */
export const makeRevocation = ({ audit, clock, organizations, revocations, sql }: Options) => {
  const atomically = atomic(sql)
  const revokeOf = Effect.fn("ApiKeys.revokeOf")(function* (
    author: Author,
    id: KeyId,
    { made_keys, reason = "requested" }: RevokeOptions & { readonly reason?: RevocationReason }
  ) {
    const { org_id } = author
    const now = yield* clock.now
    yield* atomically(
      Effect.gen(function* () {
        // Serializes the organization's revocations and new keys: two admins could otherwise revoke each other concurrently.
        yield* organizations.lockForUpdate(org_id)
        const line = yield* findKeyWithMade(sql, { org_id, key_id: id })
        if (line.length === 0) return yield* notFound("key")
        const ended = line.filter(({ key_id }) => made_keys === "revoke" || key_id === id)
        const keys = ended.filter(({ revoked }) => !revoked).map(({ key_id }) => key_id)
        const { keepsAdmin, revokesAdmin } = yield* findAdminKeys(sql, org_id, allScopes, keys, now)
        // A leaked key is revoked even if it is the last admin key: the operator can create another one.
        if (reason === "requested" && revokesAdmin && !keepsAdmin) {
          return yield* new LastAdminKey({
            detail:
              keys.length > 1
                ? "This would revoke the organization's last usable admin key. To keep the keys that this one created, revoke it with `made_keys=keep`."
                : "This is the organization's last usable admin key. Create another admin key before you revoke it."
          })
        }
        yield* revokeKeys(sql, org_id, keys, now, reason)
        for (const key of keys) {
          yield* audit.record(author, "key.revoked", key, {
            ...(reason === "requested" ? {} : { reason }),
            ...(key === id ? {} : { revoked_with: id })
          })
        }
        yield* sql.afterCommit(
          Effect.forEach(ended, ({ key_id }) => revocations.publish(key_id), { discard: true })
        )
      })
    )
  })

  const revokeLeaked = Effect.fn("ApiKeys.revokeLeaked")(function* (texts: ReadonlyArray<Redacted.Redacted>) {
    const parsed = texts.flatMap((text) =>
      Result.match(ApiKeyFormat.parseApiKey(Redacted.value(text)), {
        onFailure: () => [],
        onSuccess: (key) => [key]
      })
    )
    if (parsed.length === 0) return 0
    const leaked = yield* Effect.orDie(findUsableKeys(sql, parsed, yield* clock.now))
    let revoked = 0
    for (const { key_id, org_id } of leaked) {
      const revocation = revokeOf({ org_id, actor: null }, key_id, {
        made_keys: "revoke",
        reason: "leaked"
      })
      // A key that was deleted since the query above is of no use to its finder.
      const isRevoked = yield* Effect.as(revocation, true).pipe(
        Effect.catchTag("NOT_FOUND", () => Effect.succeed(false)),
        Effect.orDie
      )
      if (!isRevoked) continue
      revoked++
      yield* Effect.logWarning("Revoked an API key that was reported as leaked", { org_id, key_id })
    }
    return revoked
  })

  return { revokeOf, revokeLeaked }
}
