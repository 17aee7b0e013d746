import { Clock, DateTime, Deferred, Effect, Exit, Redacted, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { InvalidApiKey } from "../../../api/Problems.ts"
import * as ApiKeyFormat from "../../../domain/identity/ApiKeyFormat.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { Revocations } from "../Revocations.ts"
import { findKey, type VerifiedKey } from "./rows.ts"
import { makeVerifiedKeyCache } from "./VerifiedKeyCache.ts"

/** Verifies the text of a key; see `ApiKeys.verify`. */
export type VerifyKey = <E = never, R = never>(
  key: Redacted.Redacted<string>,
  admit?: Effect.Effect<void, E, R>
) => Effect.Effect<Principal, InvalidApiKey | E, R>

const reasons = {
  malformed: "Malformed API key. A key has the form csk_….",
  checksum: "Malformed API key: its checksum does not match. Check for a typo or a truncated copy.",
  unknown: "Unknown API key.",
  revoked: "This API key was revoked.",
  expired: "This API key has expired."
}

/** The 401 for a key that is not accepted. */
export const invalidKey = (reason: keyof typeof reasons) =>
  Effect.fail(new InvalidApiKey({ detail: reasons[reason] }))

/** `VerifyKey` with a cache of its own, until the scope closes. */
export const makeVerifyKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  storeClock: StoreClock["Service"],
  revocations: Revocations["Service"]
) {
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const cache = makeVerifiedKeyCache()
  yield* revocations.subscribe({
    keysInUse: () => cache.keysInUse(monotonicMillis(clock)),
    onEnded: cache.invalidate
  })

  const requireUsable = ({ expires_at, principal, revoked_at }: VerifiedKey) => {
    if (revoked_at !== null) return invalidKey("revoked")
    if (expires_at === null) return Effect.succeed(principal)
    return Effect.flatMap(storeClock.now, (now) =>
      expires_at <= DateTime.toEpochMillis(now) ? invalidKey("expired") : Effect.succeed(principal)
    )
  }

  /** Single-flight: the query in flight for a key, which every request with that key awaits. */
  const inFlight = new Map<string, Deferred.Deferred<VerifiedKey | null>>()

  /** Queries a key in a fiber of its own: the request that started the query may be interrupted while others wait for its result. */
  const query = (text: string, { key, publicId }: ApiKeyFormat.ParsedApiKey) =>
    Effect.uninterruptible(
      Effect.clockWith((clock) => {
        const result = Deferred.makeUnsafe<VerifiedKey | null>()
        inFlight.set(text, result)
        // Before the query is sent, so that a slow query shortens the entry's life in the cache.
        const now = monotonicMillis(clock)
        return findKey(sql, publicId, ApiKeyFormat.apiKeyDigest(key)).pipe(
          Effect.orDie,
          Effect.onExit((exit) =>
            Effect.sync(() => {
              inFlight.delete(text)
              if (Exit.isSuccess(exit) && exit.value !== null) cache.set(text, exit.value, now)
              Deferred.doneUnsafe(result, exit)
            })
          ),
          Effect.forkIn(scope),
          Effect.as(result)
        )
      })
    )

  const lookUp = Effect.fnUntraced(function* <E, R>(
    text: string,
    admit: Effect.Effect<void, E, R> | undefined
  ) {
    const parsed = ApiKeyFormat.parseApiKey(text)
    if (Result.isFailure(parsed)) return yield* invalidKey(parsed.failure)
    // Only unknown keys need admission, so that a flood of them cannot starve keys in use. Of many concurrent requests with one
    // key, the first is admitted and the others await its query.
    if (admit !== undefined && !cache.wasVerified(text) && !inFlight.has(text)) yield* admit
    const found = yield* Deferred.await(inFlight.get(text) ?? (yield* query(text, parsed.success)))
    return found === null ? yield* invalidKey("unknown") : yield* requireUsable(found)
  })

  // Plain functions, not `Effect.fn`: this precedes every operation.
  const verify: VerifyKey = (key, admit) =>
    Effect.clockWith((clock) => {
      const text = Redacted.value(key)
      const cached = cache.get(text, monotonicMillis(clock))
      return cached === undefined ? lookUp(text, admit) : requireUsable(cached)
    })
  return verify
})
