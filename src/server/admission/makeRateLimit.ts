import { Effect } from "effect"
import { RateLimited } from "../../api/Problems.ts"
import { rateLimitWithin } from "../../domain/identity/RateLimit.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import type { LimitName, LimitUse } from "../observability/LimitUse.ts"
import { reportQuota } from "../observability/reportQuota.ts"
import { makeTokenBuckets } from "./TokenBuckets.ts"

/** A rate limit of requests by name, such as an address, whose refusals are problems. */
export interface NamedRate {
  readonly limit: LimitName
  /** Requests of one name in the window; 0 is no limit. */
  readonly requests: number
  readonly windowSeconds: number
  /** The detail of a refusal. */
  readonly detail: string
  /** Whether responses name the limit and its rest. Default false. */
  readonly isReported?: boolean
  /** Whether the metrics note how near a name has come to the limit. Default true. Refusals always count. */
  readonly isNoted?: boolean
}

/** Admits requests of a name within a rate, counted by each replica, and refuses those beyond it. */
export const makeRateLimit = (
  { detail, isNoted = true, isReported = false, limit, requests, windowSeconds }: NamedRate,
  use: LimitUse["Service"]
): ((name: string) => Effect.Effect<void, RateLimited>) => {
  if (requests === 0) return () => Effect.void
  const buckets = makeTokenBuckets(rateLimitWithin(requests, windowSeconds * 1_000))
  return Effect.fnUntraced(function* (name: string) {
    const { allowed, remaining, waitMillis } = buckets.take(name, yield* monotonicNow)
    if (isReported) yield* reportQuota({ name: limit, limit: requests, remaining, windowSeconds })
    if (!allowed) {
      use.refused(limit)
      return yield* new RateLimited({ detail, retry_after_seconds: retryAfterSeconds(waitMillis) })
    }
    if (isNoted) use.used(limit, 1 - remaining / requests)
  })
}

/** The wait of a refused request in whole seconds, for `Retry-After`. */
export const retryAfterSeconds = (waitMillis: number): number => Math.max(1, Math.ceil(waitMillis / 1_000))
