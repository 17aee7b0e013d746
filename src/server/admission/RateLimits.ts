import { Context, Effect, Layer, Result } from "effect"
import { HttpServerResponse } from "effect/http"
import { NetAddress } from "effect/net"
import { RateLimited } from "../../api/Problems.ts"
import type { FeedbackToken } from "../../domain/tasks/FeedbackToken.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { rateLimit } from "../../domain/identity/RateLimit.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { type LimitName, LimitUse } from "../observability/LimitUse.ts"
import { makeRateLimit, retryAfterSeconds } from "./makeRateLimit.ts"
import { makeTokenBuckets } from "./TokenBuckets.ts"

/** The result of the rate limits for one request. */
export interface Quota {
  /** The limit that refuses the request, and when that ends; undefined: the request is allowed. */
  readonly refused: { readonly by: Policy; readonly waitMillis: number } | undefined
  /** Adds the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10). */
  readonly addHeaders: (
    response: HttpServerResponse.HttpServerResponse
  ) => HttpServerResponse.HttpServerResponse
}

/** A limit of requests per second, as the response headers name it. */
interface Policy {
  readonly name: "key" | "organization"
  readonly perSecond: number
}

/** Lookups of keys and sessions from one address if keys have no limit: the flood of an outsider is bounded all the same. */
const KEY_LOOKUPS_PER_SECOND = 500

/**
 * Reports of leaked keys from one address. A report can have a thousand keys, and takes a single query unless some are
 * real.
 */
const LEAK_REPORTS_PER_SECOND = 5

/** Confirmations of email addresses from one address: a person needs one, and each takes a query. */
const EMAIL_CONFIRMATIONS_PER_SECOND = 5

/** Feedback of end users from one address: many may share one. Checked before the token. */
const END_USER_REQUESTS_PER_SECOND = 20

/** Feedback with one token in a minute: a person clicks a few times. */
const REQUESTS_PER_TOKEN_AND_MINUTE = 20

/** The key and the organization of a request. */
export type Requester = Pick<Principal, "org_id"> & { readonly actor: Pick<Principal["actor"], "id"> }

/**
 * Rate limits per API key, over all keys of an organization, and per address for lookups of keys that are not cached. Each replica counts
 * separately.
 */
export class RateLimits extends Context.Service<
  RateLimits,
  {
    /** Counts a request of a key and its organization, and returns whether it is within both limits. */
    readonly admitRequest: (requester: Requester) => Effect.Effect<Quota>
    /**
     * Counts further requests of a key and its organization, for a request that does the work of several. They are never refused: if the
     * limits have fewer left, later requests wait until these are paid for.
     */
    readonly charge: (requester: Requester, count: number) => Effect.Effect<void>
    /**
     * Counts a lookup of a key or a console session in the database against the client's address, so that a flood of invalid ones cannot
     * become a flood of statements.
     */
    readonly admitKeyLookup: (address: string) => Effect.Effect<void, RateLimited>
    /** Counts a report of leaked keys against the address of its sender. */
    readonly admitLeakReport: (address: string) => Effect.Effect<void, RateLimited>
    /** Counts a confirmation of an email address against the client's address. */
    readonly admitEmailConfirmation: (address: string) => Effect.Effect<void, RateLimited>
    /** Counts feedback of an end user against the client's address. */
    readonly admitEndUserAddress: (address: string) => Effect.Effect<void, RateLimited>
    /**
     * Counts feedback of an end user against its token, and against its organization. The limits are apart from the limits of API keys, so that
     * browsers cannot use up the limits of the organization's servers.
     */
    readonly admitEndUserFeedback: (
      token: Pick<FeedbackToken, "id" | "org_id">
    ) => Effect.Effect<void, RateLimited>
  }
>()("countersign/server/admission/RateLimits") {
  /**
   * Each limit is in requests per second, plus a burst of the same size; 0 disables it. Lookups of keys have the limit of a key, or else
   * `KEY_LOOKUPS_PER_SECOND`.
   */
  static readonly layer = (options: {
    readonly perKey: number
    readonly perOrganization: number
    readonly endUserFeedback: number
  }): Layer.Layer<RateLimits, never, LimitUse> =>
    Layer.effect(
      RateLimits,
      Effect.map(LimitUse, (use) => {
        const ofAddress = (limit: LimitName, requests: number, kind: string) => {
          const detail = `Too many ${kind} from this address.`
          const admit = makeRateLimit({ limit, requests, windowSeconds: 1, detail }, use)
          return (address: string) => admit(networkOf(address))
        }
        const endUserFeedback = {
          limit: "end_user_feedback",
          detail: "Too much feedback at once. Wait, and send it again."
        } as const
        const admitToken = makeRateLimit(
          { ...endUserFeedback, requests: REQUESTS_PER_TOKEN_AND_MINUTE, windowSeconds: 60, isNoted: false },
          use
        )
        const admitOrganization = makeRateLimit(
          { ...endUserFeedback, requests: options.endUserFeedback, windowSeconds: 1 },
          use
        )
        return RateLimits.of({
          ...makeRequestLimits(options, use),
          admitKeyLookup: ofAddress(
            "key_lookups",
            options.perKey === 0 ? KEY_LOOKUPS_PER_SECOND : options.perKey,
            "requests with invalid API keys or sessions"
          ),
          admitLeakReport: ofAddress("leak_reports", LEAK_REPORTS_PER_SECOND, "reports of leaked keys"),
          admitEmailConfirmation: ofAddress(
            "email_confirmations",
            EMAIL_CONFIRMATIONS_PER_SECOND,
            "confirmations of email addresses"
          ),
          admitEndUserAddress: ofAddress(
            "end_user_feedback",
            options.endUserFeedback === 0 ? 0 : END_USER_REQUESTS_PER_SECOND,
            "requests with feedback tokens"
          ),
          // The token's limit comes first: one browser must not use up the quota of the others of its organization.
          admitEndUserFeedback: ({ id, org_id }) => Effect.andThen(admitToken(id), admitOrganization(org_id))
        })
      })
    )
}

const makeRequestLimits = (
  { perKey, perOrganization }: { readonly perKey: number; readonly perOrganization: number },
  use: LimitUse["Service"]
): Pick<RateLimits["Service"], "admitRequest" | "charge"> => {
  const limits = [
    ...(perKey === 0
      ? []
      : [makeRequestLimit({ name: "key", perSecond: perKey }, "key_requests", ({ actor }) => actor.id)]),
    ...(perOrganization === 0
      ? []
      : [
          makeRequestLimit(
            { name: "organization", perSecond: perOrganization },
            "organization_requests",
            ({ org_id }) => org_id
          )
        ])
  ]
  const charge: RateLimits["Service"]["charge"] = (requester, count) =>
    Effect.clockWith((clock) => {
      const now = monotonicMillis(clock)
      for (const limit of limits) limit.charge(requester, count, now)
      return Effect.void
    })
  if (limits.length === 0)
    return {
      admitRequest: () => Effect.succeed({ refused: undefined, addHeaders: (response) => response }),
      charge
    }
  const policies = limits.map(({ policy: { name, perSecond } }) => `"${name}";q=${perSecond};w=1`).join(", ")

  const admitRequest: RateLimits["Service"]["admitRequest"] = (requester) =>
    Effect.clockWith((clock) => {
      const now = monotonicMillis(clock)
      let refused: Quota["refused"]
      let remaining = ""
      // The key's limit comes first: a key beyond it must not use up what its organization's other keys may send.
      for (const { policy, take, useName } of limits) {
        const taken = take(requester, now)
        remaining += `${remaining === "" ? "" : ", "}"${policy.name}";r=${taken.remaining};t=1`
        if (taken.allowed) use.used(useName, 1 - taken.remaining / policy.perSecond)
        else {
          use.refused(useName)
          refused = { by: policy, waitMillis: taken.waitMillis }
          break
        }
      }
      return Effect.succeed({
        refused,
        addHeaders: (response: HttpServerResponse.HttpServerResponse) =>
          HttpServerResponse.setHeaders(response, { "ratelimit-policy": policies, ratelimit: remaining })
      })
    })
  return { admitRequest, charge }
}

const makeRequestLimit = (policy: Policy, useName: LimitName, nameOf: (requester: Requester) => string) => {
  const buckets = makeTokenBuckets(rateLimit(policy.perSecond))
  return {
    policy,
    useName,
    take: (requester: Requester, now: number) => buckets.take(nameOf(requester), now),
    charge: (requester: Requester, count: number, now: number) =>
      buckets.charge(nameOf(requester), count, now)
  }
}

/** The problem for a request beyond the limit of its key or its organization. */
export const rateLimitExceeded = ({ by, waitMillis }: NonNullable<Quota["refused"]>): RateLimited =>
  new RateLimited({
    detail:
      by.name === "key"
        ? `Rate limit exceeded: this API key may send ${by.perSecond} requests per second. Wait, and send fewer.`
        : `Rate limit exceeded: this organization's API keys together may send ${by.perSecond} requests per second. Wait, and send fewer with all keys.`,
    retry_after_seconds: retryAfterSeconds(waitMillis)
  })

/** The network of a client: the whole IPv4 address, or the first 64 bits of an IPv6 address, which one customer usually has. */
const networkOf = (address: string): string => {
  if (!address.includes(":")) return address
  const ip = NetAddress.ipv6FromString(address)
  return Result.isFailure(ip) || NetAddress.isIpv4Mapped(ip.success)
    ? address
    : Buffer.from(NetAddress.ipv6ToOctets(ip.success).slice(0, 8)).toString("hex")
}
