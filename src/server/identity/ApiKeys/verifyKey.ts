import { Clock, Deferred, Effect, Exit, Redacted, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { AddressNotAllowed, InvalidApiKey } from "../../../api/Problems.ts"
import { containsAddress } from "../../../domain/identity/AllowedNetworks.ts"
import * as ApiKeyFormat from "../../../domain/identity/ApiKeyFormat.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { AuthenticationRefusals } from "../AuthenticationRefusals.ts"
import type { Revocations } from "../Revocations.ts"
import type { KeyUses } from "./KeyUses.ts"
import { findKey, type VerifiedKey } from "./rows.ts"
import { makeVerifiedKeyCache } from "./VerifiedKeyCache.ts"

/** Verifies the text of a key; see `ApiKeys.verify`. */
export type VerifyKey = <E = never, R = never>(
  key: Redacted.Redacted<string>,
  admit?: Effect.Effect<void, E, R>
) => Effect.Effect<Principal, InvalidApiKey | E, R>

/** The request that presents a key. */
export interface KeyPresentation<E, R> {
  /** The client's address. */
  readonly address: string
  /** Runs before the query for a key that this replica has not verified before. */
  readonly admit: Effect.Effect<void, E, R>
}

/** Verifies the key of a request; see `ApiKeys.authenticate`. */
export type AuthenticateKey = <E, R>(
  key: Redacted.Redacted<string>,
  presentation: KeyPresentation<E, R>
) => Effect.Effect<Principal, InvalidApiKey | AddressNotAllowed | E, R>

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

/**
 * The 403 for a key that may not be used from an address. It names the address, because it may be an unconfigured
 * proxy's.
 */
export const addressNotAllowed = (address: string) =>
  Effect.fail(
    new AddressNotAllowed({
      detail: `This API key may not be used from ${address}. Send the request from one of the key's allowed networks, or create a key for this one.`
    })
  )

/** A stored key, or the reason why a text is not a valid key. */
type FoundKey = VerifiedKey | ApiKeyFormat.ApiKeyParseError | "unknown"

/** `VerifyKey` and `AuthenticateKey` with a cache, until the scope closes. */
export const makeVerifyKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  storeClock: StoreClock["Service"],
  revocations: Revocations["Service"],
  uses: KeyUses
) {
  const refusals = yield* AuthenticationRefusals
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const cache = makeVerifiedKeyCache()
  yield* revocations.subscribe({
    keysInUse: () => cache.keysInUse(monotonicMillis(clock)),
    onEnded: cache.invalidate
  })

  /** The reason why a key cannot be used at this time; undefined if it can. */
  const findEnd = ({ expires_at, revoked_at }: VerifiedKey): "revoked" | "expired" | undefined => {
    if (revoked_at !== null) return "revoked"
    return expires_at !== null && expires_at <= storeClock.millisUnsafe() ? "expired" : undefined
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

  /** The key with this text, or the reason why it is not valid. */
  const lookUp = Effect.fnUntraced(function* <E, R>(
    text: string,
    admit: Effect.Effect<void, E, R> | undefined
  ): Effect.fn.Return<FoundKey, E, R> {
    const parsed = ApiKeyFormat.parseApiKey(text)
    if (Result.isFailure(parsed)) return parsed.failure
    // Only unknown keys need admission, so that a flood of them cannot starve keys in use. Of many concurrent requests with one
    // key, the first is admitted and the others await its query.
    if (admit !== undefined && !cache.wasVerified(text) && !inFlight.has(text)) yield* admit
    return (
      (yield* Deferred.await(inFlight.get(text) ?? (yield* query(text, parsed.success)))) ??
      ("unknown" as const)
    )
  })

  const acceptUsable = (found: FoundKey) => {
    if (typeof found === "string") return invalidKey(found)
    const end = findEnd(found)
    return end === undefined ? Effect.succeed(found.principal) : invalidKey(end)
  }

  const verify: VerifyKey = (key, admit) =>
    Effect.clockWith((clock) => {
      const text = Redacted.value(key)
      const cached = cache.get(text, monotonicMillis(clock))
      return cached === undefined ? Effect.flatMap(lookUp(text, admit), acceptUsable) : acceptUsable(cached)
    })

  const acceptFrom = (
    address: string,
    found: FoundKey
  ): Effect.Effect<Principal, InvalidApiKey | AddressNotAllowed> => {
    if (typeof found === "string") {
      refusals.record({ reason: found, address })
      return invalidKey(found)
    }
    const { networks, principal } = found
    const key = { org_id: principal.org_id, key_id: principal.actor.id }
    const end = findEnd(found)
    if (end !== undefined) {
      refusals.record({ reason: end, address, key })
      return invalidKey(end)
    }
    if (networks !== null && !containsAddress(networks, address)) {
      refusals.record({ reason: "address", address, key })
      return addressNotAllowed(address)
    }
    uses.record(key)
    return Effect.succeed(principal)
  }

  // Plain functions, not `Effect.fn`, because every request runs them.
  const authenticate: AuthenticateKey = (key, { address, admit }) =>
    Effect.clockWith((clock) => {
      const text = Redacted.value(key)
      const cached = cache.get(text, monotonicMillis(clock))
      return cached === undefined
        ? Effect.flatMap(lookUp(text, admit), (found) => acceptFrom(address, found))
        : acceptFrom(address, cached)
    })
  return { verify, authenticate }
})
