import { Effect } from "effect"
import { RateLimited } from "../../../api/Problems.ts"
import type { EndpointId, OrgId } from "../../../domain/Ids.ts"
import { rateLimitWithin, takeToken } from "../../../domain/identity/RateLimit.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { LimitUse } from "../../observability/LimitUse.ts"

/** Endpoints whose tests one replica counts. */
const MAX_ENDPOINTS = 10_000

/** Limits test events to each endpoint: without it, a caller could send any number of them to a host that never agreed to receive any. */
export const makeTestLimit = (perMinute: number, use: (typeof LimitUse)["Service"]) => {
  if (perMinute === 0) return () => Effect.void
  const limit = rateLimitWithin(perMinute, 60_000)
  const buckets = new LruCache<number>({ entries: MAX_ENDPOINTS, weight: MAX_ENDPOINTS })
  return Effect.fnUntraced(function* (org_id: OrgId, id: EndpointId) {
    const name = `${org_id} ${id}`
    const now = yield* monotonicNow
    const { allowed, fullAt, remaining, waitMillis } = takeToken(limit, buckets.get(name) ?? now, now)
    buckets.set(name, fullAt, 1)
    if (allowed) return use.used("endpoint_tests", 1 - remaining / perMinute)
    use.refused("endpoint_tests")
    return yield* new RateLimited({
      detail: `Rate limit exceeded: an endpoint can be sent ${perMinute} test events per minute.`,
      retry_after_seconds: Math.max(1, Math.ceil(waitMillis / 1000))
    })
  })
}
