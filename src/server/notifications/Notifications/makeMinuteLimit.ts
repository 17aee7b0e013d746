import { Effect } from "effect"
import { RateLimited } from "../../../api/Problems.ts"
import { rateLimitWithin, takeToken } from "../../../domain/identity/RateLimit.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { LimitName, LimitUse } from "../../observability/LimitUse.ts"
import { reportQuota } from "../../observability/reportQuota.ts"

const WINDOW_SECONDS = 60

/** Maximum number of names whose requests one replica counts. */
const MAX_NAMES = 10_000

/**
 * Limits requests that send something immediately, per minute and name: otherwise a caller could flood a host that
 * never agreed to receive anything.
 */
export const makeMinuteLimit = (
  {
    detail,
    limit: limitName,
    perMinute
  }: { readonly perMinute: number; readonly limit: LimitName; readonly detail: string },
  use: (typeof LimitUse)["Service"]
): ((name: string) => Effect.Effect<void, RateLimited>) => {
  if (perMinute === 0) return () => Effect.void
  const limit = rateLimitWithin(perMinute, WINDOW_SECONDS * 1_000)
  const buckets = new LruCache<number>({ entries: MAX_NAMES, weight: MAX_NAMES })
  return Effect.fnUntraced(function* (name: string) {
    const now = yield* monotonicNow
    const { allowed, fullAt, remaining, waitMillis } = takeToken(limit, buckets.get(name) ?? now, now)
    buckets.set(name, fullAt, 1)
    yield* reportQuota({ name: limitName, limit: perMinute, remaining, windowSeconds: WINDOW_SECONDS })
    if (allowed) return use.used(limitName, 1 - remaining / perMinute)
    use.refused(limitName)
    return yield* new RateLimited({
      detail,
      retry_after_seconds: Math.max(1, Math.ceil(waitMillis / 1000))
    })
  })
}
