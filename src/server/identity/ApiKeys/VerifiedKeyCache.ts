import type { VerifiedKey } from "./rows.ts"

/** How long a key that was checked is believed: a revoked one works no longer than this on any replica. */
const BELIEVED_FOR_MILLIS = 5_000
/** How long a key that was checked is remembered as one; it is forgotten when the next key is checked. */
const REMEMBERED_MILLIS = 10 * 60_000
/** How many checked keys one process remembers; past it the one that was checked longest ago is forgotten. */
const REMEMBERED_KEYS = 10_000

/**
 * Keys that the store knew a moment ago, by their whole text: one remembered by its public id alone would let any secret through.
 * Asked before the text is taken apart, so that a key in use costs neither a checksum nor a digest. Only keys of the store get in,
 * so nobody fills it from outside; the text is the one that every request brings, and is kept nowhere else. Times are of a monotonic
 * clock.
 */
export const makeVerifiedKeyCache = () => {
  /** In the order in which they were checked. */
  const known = new Map<string, { readonly key: VerifiedKey; readonly checkedAt: number; until: number }>()
  return {
    get: (text: string, now: number): VerifiedKey | undefined => {
      const found = known.get(text)
      return found !== undefined && now < found.until ? found.key : undefined
    },
    /** Whether it was a key when the store was last asked for it. */
    wasVerified: (text: string): boolean => known.has(text),
    remember: (text: string, key: VerifiedKey, now: number): void => {
      known.delete(text)
      known.set(text, { key, checkedAt: now, until: now + BELIEVED_FOR_MILLIS })
      for (const [oldest, { checkedAt }] of known) {
        if (known.size <= REMEMBERED_KEYS && now - checkedAt < REMEMBERED_MILLIS) return
        known.delete(oldest)
      }
    },
    /** Believes none any more: revoking is rare, and asking the store again is cheap. */
    invalidateAll: (): void => {
      for (const entry of known.values()) entry.until = Number.NEGATIVE_INFINITY
    }
  }
}
