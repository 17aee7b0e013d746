import { Effect, Redacted, Result } from "effect"
import { notFound } from "../../../api/notFound.ts"
import type { RevocationReason } from "../../../domain/identity/ApiKey.ts"
import * as ApiKeyFormat from "../../../domain/identity/ApiKeyFormat.ts"
import type { KeyId } from "../../../domain/Ids.ts"
import { atomic } from "../../store/transaction.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { Author } from "../Audit.ts"
import type { Organizations } from "../Organizations.ts"
import { type KeyEndDeps, makeKeyEnds, type RevokeOptions } from "./keyEnds.ts"
import { findListedKey, findUsableKeys } from "./rows.ts"

/** Dependencies. */
interface Options extends KeyEndDeps {
  readonly clock: StoreClock["Service"]
  readonly organizations: Organizations["Service"]
}

/** Revokes keys: see `ApiKeys.revoke` and `ApiKeys.revokeLeaked`. */
export const makeRevocation = (options: Options) => {
  const { clock, organizations, sql } = options
  const atomically = atomic(sql)
  const keyEnds = makeKeyEnds(options)
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
        const row = yield* findListedKey(sql, { org_id, key_id: id }, now)
        if (row === undefined) return yield* notFound("key")
        yield* keyEnds.end(author, id, { made_keys, reason }, now)
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
