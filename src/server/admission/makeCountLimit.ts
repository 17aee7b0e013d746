import { Effect } from "effect"
import type { OrgId } from "../../domain/Ids.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"

/** How long a count is used. Within this time a replica does not see the creations of others. */
const FRESH_MILLIS = 30_000

/** The shortest time between two counts for an organization at its limit, so that one that floods is not counted with every request. */
const RECOUNT_MILLIS = 1_000

/** Organizations whose count one replica caches. */
const MAX_ORGANIZATIONS = 10_000

interface Counted {
  count: number
  /** Admitted since the count began. */
  added: number
  at: number
}

/**
 * Limits how many of something an organization has, where an exact count with every creation would cost too much. Each
 * replica counts an organization at most every 30 seconds, or every second at the limit, and adds its own admissions in
 * between. So one replica alone keeps the limit; several exceed it by at most the others' creations in 30 seconds.
 */
export const makeCountLimit = <E>(options: {
  readonly limit: number
  /** Counts the organization's present ones, up to `limit`. */
  readonly count: (org_id: OrgId, limit: number) => Effect.Effect<number, E>
}) => {
  const { count, limit } = options
  const organizations = new LruCache<Counted>({ entries: MAX_ORGANIZATIONS, weight: MAX_ORGANIZATIONS })

  /** Admits one more, and returns the use of the limit as a fraction, or undefined if the limit is reached. */
  return Effect.fnUntraced(function* (org_id: OrgId): Effect.fn.Return<number | undefined, E> {
    const now = yield* monotonicNow
    const known = organizations.get(org_id)
    const counted = known ?? { count: 0, added: 0, at: Number.NEGATIVE_INFINITY }
    if (known === undefined) organizations.set(org_id, counted, 1)
    const isFull = counted.count + counted.added >= limit
    if (now - counted.at >= (isFull ? RECOUNT_MILLIS : FRESH_MILLIS)) {
      const { added, at } = counted
      // Set before the count, so that concurrent callers do not count as well.
      counted.at = now
      counted.count = yield* Effect.onError(count(org_id, limit), () =>
        Effect.sync(() => {
          counted.at = at
        })
      )
      counted.added -= added
    }
    if (counted.count + counted.added >= limit) return undefined
    counted.added++
    return (counted.count + counted.added) / limit
  })
}
