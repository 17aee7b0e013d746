import { Effect } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import type { LimitName } from "./LimitUse.ts"

/** A limit that applies to the current request, and its remaining amount. */
export interface Quota {
  readonly name: LimitName
  readonly limit: number
  readonly remaining: number
  /** The counted unit, in the terms of the headers. Default: requests, if each creates or sends one. */
  readonly unit?: "concurrent-requests" | "content-bytes"
  /** The time in which the limit renews. Default: it does not renew with time. */
  readonly windowSeconds?: number
}

/** Fraction of a limit that is left when use is near it. */
const NEAR = 0.2

/**
 * Names a limit in the response to the current request, in the headers `RateLimit-Policy` and `RateLimit`
 * (draft-ietf-httpapi-ratelimit-headers-10), after the quotas of the requests per second. Outside of a request it does nothing.
 */
export const reportQuota = (quota: Quota): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    HttpEffect.appendPreResponseHandlerUnsafe(fiber.context, (_request, response) =>
      Effect.succeed(withQuota(response, quota))
    )
    return Effect.void
  })

/**
 * Whether at least 80 % of a limit are used. Limits of stored amounts are reported only then: they are large, and checked
 * by frequent requests.
 */
export const isNearLimit = ({ limit, remaining }: Pick<Quota, "limit" | "remaining">): boolean =>
  remaining <= limit * NEAR

const withQuota = (
  response: HttpServerResponse.HttpServerResponse,
  { limit, name, remaining, unit, windowSeconds }: Quota
): HttpServerResponse.HttpServerResponse => {
  const left = Math.max(0, Math.floor(remaining))
  const policy = [
    `"${name}"`,
    `q=${limit}`,
    ...(unit === undefined ? [] : [`qu="${unit}"`]),
    ...(windowSeconds === undefined ? [] : [`w=${windowSeconds}`])
  ].join(";")
  const rest = windowSeconds === undefined ? `"${name}";r=${left}` : `"${name}";r=${left};t=${windowSeconds}`
  return HttpServerResponse.setHeaders(response, {
    "ratelimit-policy": append(response.headers["ratelimit-policy"], policy),
    ratelimit: append(response.headers["ratelimit"], rest)
  })
}

const append = (list: string | undefined, item: string): string =>
  list === undefined ? item : `${list}, ${item}`
