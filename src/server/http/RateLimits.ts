import { Context, Effect, Layer, Result } from "effect"
import { HttpServerResponse } from "effect/http"
import { NetAddress } from "effect/net"
import { RateLimited } from "../../api/Problems.ts"
import type { KeyId } from "../../domain/Ids.ts"
import {
  rateLimit,
  type RateLimit,
  takeToken,
  type RateLimitResult
} from "../../domain/identity/RateLimit.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"

/** The result of the rate limit for one request. */
export interface Quota {
  readonly allowed: boolean
  readonly waitMillis: number
  /** Adds the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10). */
  readonly addHeaders: (
    response: HttpServerResponse.HttpServerResponse
  ) => HttpServerResponse.HttpServerResponse
}

/** Rate limits per API key, and per address for lookups of keys that are not cached. Each replica counts separately. */
export class RateLimits extends Context.Service<
  RateLimits,
  {
    /** Counts a request of a key, and returns whether it is within the limit. */
    readonly admitRequest: (key: KeyId) => Effect.Effect<Quota>
    /**
     * Counts a lookup of a key in the database against the client's address, so that a flood of invalid keys cannot become a flood of
     * statements.
     */
    readonly admitKeyLookup: (address: string) => Effect.Effect<void, RateLimited>
  }
>()("countersign/server/http/RateLimits") {
  /** Both limits are `perSecond` requests per second, with a burst of as many again; 0 disables them. */
  static readonly layer = (options: { readonly perSecond: number }): Layer.Layer<RateLimits> =>
    Layer.sync(RateLimits, () => (options.perSecond === 0 ? unlimited : make(rateLimit(options.perSecond))))
}

const unlimited = RateLimits.of({
  admitRequest: () => Effect.succeed({ allowed: true, waitMillis: 0, addHeaders: (response) => response }),
  admitKeyLookup: () => Effect.void
})

const make = (limit: RateLimit): RateLimits["Service"] => {
  const keys = makeBuckets(limit)
  const addresses = makeBuckets(limit)
  const policy = `"key";q=${limit.perSecond};w=1`

  const quotaOf = ({ allowed, remaining, waitMillis }: RateLimitResult): Quota => ({
    allowed,
    waitMillis,
    addHeaders: (response) =>
      HttpServerResponse.setHeaders(response, {
        "ratelimit-policy": policy,
        ratelimit: `"key";r=${remaining};t=1`
      })
  })

  return RateLimits.of({
    admitRequest: (key) =>
      Effect.clockWith((clock) => Effect.succeed(quotaOf(keys(key, monotonicMillis(clock))))),
    admitKeyLookup: (address) =>
      Effect.clockWith((clock) => {
        const { allowed, waitMillis } = addresses(networkOf(address), monotonicMillis(clock))
        return allowed
          ? Effect.void
          : Effect.fail(
              new RateLimited({
                detail: "Too many requests with invalid API keys from this address.",
                retry_after_seconds: wholeSeconds(waitMillis)
              })
            )
      })
  })
}

/** The problem for a request beyond its key's limit. */
export const rateLimitExceeded = ({ waitMillis }: Quota): RateLimited =>
  new RateLimited({
    detail: "Rate limit exceeded for this key; see the RateLimit-Policy header.",
    retry_after_seconds: wholeSeconds(waitMillis)
  })

const wholeSeconds = (waitMillis: number): number => Math.max(1, Math.ceil(waitMillis / 1000))

/**
 * Token buckets by name, in two generations: those used in the current window, and those used in the previous one. A name in neither has been
 * idle long enough for a full bucket. Nothing needs a sweep, and memory is bounded by the requests of two windows. Effect's `RateLimiter` never
 * evicts a bucket from its memory store, so the flood that it limits would fill the memory.
 */
const makeBuckets = (limit: RateLimit) => {
  let current = new Map<string, number>()
  let previous = current
  let windowStart = Number.NEGATIVE_INFINITY
  return (name: string, now: number): RateLimitResult => {
    if (now - windowStart >= limit.windowMillis) {
      previous = now - windowStart >= 2 * limit.windowMillis ? new Map() : current
      current = new Map()
      windowStart = now
    }
    const taken = takeToken(limit, current.get(name) ?? previous.get(name) ?? now, now)
    current.set(name, taken.fullAt)
    return taken
  }
}

/** The network of a client: the whole IPv4 address, or the first 64 bits of an IPv6 address, which one customer usually has. */
const networkOf = (address: string): string => {
  const ip = NetAddress.ipFromString(address)
  return Result.isFailure(ip) || NetAddress.isIpv4Address(ip.success) || NetAddress.isIpv4Mapped(ip.success)
    ? address
    : Buffer.from(NetAddress.ipv6ToOctets(ip.success).slice(0, 8)).toString("hex")
}
