import type { KeyId } from "../../../domain/Ids.ts"
import { VERIFIED_KEY_TTL_MILLIS } from "../Revocations.ts"
import type { KeyRef } from "../KeyRef.ts"
import type { VerifiedKey } from "./rows.ts"

/** How long a key counts as verified before, after its last query. Older keys are removed when another key is verified. */
const REMEMBERED_MILLIS = 10 * 60_000

/** Cached keys per replica; past that, the key with the oldest query is evicted. */
const MAX_REMEMBERED_KEYS = 10_000

interface CachedKey {
  readonly key: VerifiedKey
  readonly verifiedAt: number
  /** When the entry is no longer used. The key is still remembered as one that was verified. */
  expiresAt: number
}

/**
 * TTL cache of verified keys, by the whole text of the key: by its public id alone, an entry would accept any secret. A lookup precedes
 * parsing, so that a key in use costs neither a checksum nor a digest. Only keys that exist get in, so callers without one cannot fill
 * the cache. All times are milliseconds of a monotonic clock.
 *
 * Not Effect's `Cache`: the TTL counts from before the query was sent, and an entry has a second, longer life (`wasVerified`).
 */
export const makeVerifiedKeyCache = () => {
  /** In the order of their last query. */
  const entries = new Map<string, CachedKey>()
  return {
    /** The key, if it was verified within `VERIFIED_KEY_TTL_MILLIS` and has not been invalidated since. */
    get: (text: string, now: number): VerifiedKey | undefined => {
      const entry = entries.get(text)
      return entry !== undefined && now < entry.expiresAt ? entry.key : undefined
    },
    /** Whether the key existed at its last query. */
    wasVerified: (text: string): boolean => entries.has(text),
    /** `now` is the time before the query was sent. */
    set: (text: string, key: VerifiedKey, now: number): void => {
      entries.delete(text)
      entries.set(text, { key, verifiedAt: now, expiresAt: now + VERIFIED_KEY_TTL_MILLIS })
      for (const [oldest, { verifiedAt }] of entries) {
        if (entries.size <= MAX_REMEMBERED_KEYS && now - verifiedAt < REMEMBERED_MILLIS) return
        entries.delete(oldest)
      }
    },
    /** The keys that `get` returns at this time and that are not revoked. */
    keysInUse: (now: number): ReadonlyArray<KeyRef> => {
      const keys: Array<KeyRef> = []
      for (const { expiresAt, key } of entries.values()) {
        const { actor, org_id } = key.principal
        if (now < expiresAt && key.revoked_at === null) keys.push({ org_id, key_id: actor.id })
      }
      return keys
    },
    /** Expires the entries of these keys: their next request queries the database. */
    invalidate: (keys: ReadonlySet<KeyId>): void => {
      for (const entry of entries.values()) {
        if (keys.has(entry.key.principal.actor.id)) entry.expiresAt = Number.NEGATIVE_INFINITY
      }
    }
  }
}
