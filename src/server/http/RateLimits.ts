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

/** How one request stands with the limit of its key. */
export interface Quota {
  readonly allowed: boolean
  readonly waitMillis: number
  /** Says on the answer how much is left (draft-ietf-httpapi-ratelimit-headers, 10). */
  readonly addHeaders: (
    answer: HttpServerResponse.HttpServerResponse
  ) => HttpServerResponse.HttpServerResponse
}

/** How often a key may ask, and an address may have unknown keys looked up. Each process counts for itself. */
export class RateLimits extends Context.Service<
  RateLimits,
  {
    /** Counts a request of a key. */
    readonly admitRequest: (key: KeyId) => Effect.Effect<Quota>
    /**
     * Counts a key that the store is about to be asked for, against the address it came from: a flood of keys that there are none of
     * must not become a flood of statements.
     */
    readonly admitKeyLookup: (address: string) => Effect.Effect<void, RateLimited>
  }
>()("countersign/server/http/RateLimits") {
  /** Both at `perSecond` requests a second, with a burst of as many again; 0: no limit. */
  static readonly layer = (options: { readonly perSecond: number }): Layer.Layer<RateLimits> =>
    Layer.sync(RateLimits, () => (options.perSecond === 0 ? unlimited : make(rateLimit(options.perSecond))))
}

const unlimited = RateLimits.of({
  admitRequest: () => Effect.succeed({ allowed: true, waitMillis: 0, addHeaders: (answer) => answer }),
  admitKeyLookup: () => Effect.void
})

const make = (limit: RateLimit): RateLimits["Service"] => {
  const keys = makeBuckets(limit)
  const addresses = makeBuckets(limit)
  const policy = `"key";q=${limit.perSecond};w=1`

  const quotaOf = ({ allowed, remaining, waitMillis }: RateLimitResult): Quota => ({
    allowed,
    waitMillis,
    addHeaders: (answer) =>
      HttpServerResponse.setHeaders(answer, {
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
                detail: "Too many keys that are not in use come from this address",
                retry_after_seconds: wholeSeconds(waitMillis)
              })
            )
      })
  })
}

/** The refusal of a request beyond its key's limit. */
export const rateLimitExceeded = ({ waitMillis }: Quota): RateLimited =>
  new RateLimited({
    detail: "This key sends more requests than it may; RateLimit-Policy has the figure",
    retry_after_seconds: wholeSeconds(waitMillis)
  })

const wholeSeconds = (waitMillis: number): number => Math.max(1, Math.ceil(waitMillis / 1000))

/**
 * The buckets of those who asked in this window or the one before, in two generations: whoever is in neither was quiet for so long
 * that the bucket is full. So nothing has to be swept, and memory is bounded by what is asked in two windows.
 */
const makeBuckets = (limit: RateLimit) => {
  let young = new Map<string, number>()
  let old = young
  let bornAt = Number.NEGATIVE_INFINITY
  return (name: string, now: number): RateLimitResult => {
    if (now - bornAt >= limit.windowMillis) {
      old = now - bornAt >= 2 * limit.windowMillis ? new Map() : young
      young = new Map()
      bornAt = now
    }
    const taken = takeToken(limit, young.get(name) ?? old.get(name) ?? now, now)
    young.set(name, taken.fullAt)
    return taken
  }
}

/** What of an address tells one customer from another: all of an IPv4 address, the first 64 bits of an IPv6 one. */
const networkOf = (address: string): string => {
  const ip = NetAddress.ipFromString(address)
  return Result.isFailure(ip) || NetAddress.isIpv4Address(ip.success) || NetAddress.isIpv4Mapped(ip.success)
    ? address
    : Buffer.from(NetAddress.ipv6ToOctets(ip.success).slice(0, 8)).toString("hex")
}
