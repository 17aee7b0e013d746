/** When and how late requests are retried. */
import { TIMEOUT } from "./ServiceUnreachable.ts"

export const DEFAULT_RETRIES = 3
export const DEFAULT_TIMEOUT = "30 seconds"

/** A model may take two minutes; the rest covers the network and the database. */
export const RUN_TIMEOUT = "150 seconds"

/** A longer `Retry-After` is not waited for: the response is returned to the caller. */
const MAX_DELAY_MILLIS = 30_000

/** The first backoff without `Retry-After`; each following one doubles, less up to half as jitter. */
const FIRST_DELAY_MILLIS = 200

/** Transient statuses of the service or of a proxy in front of it. */
const TRANSIENT: ReadonlySet<number> = new Set([502, 503, 504])

/** Rejected before processing, so any request may be retried. */
const TOO_MANY_REQUESTS = 429

/** How an attempt ended: a response, or the reason why there is none. */
export type AttemptOutcome =
  | {
      readonly status: number
      readonly contentType: string | undefined
      readonly retryAfter: string | undefined
    }
  | { readonly reason: string }

/** A request that may be retried. */
export interface RetriableRequest {
  readonly method: string
  readonly idempotencyKey: string | undefined
  /** Maximum retries. */
  readonly retries: number
}

/**
 * Whether the outcome is worth a retry. Any request is retried after a 429; idempotent requests (reads, and requests with an
 * `Idempotency-Key`) also after a failed connection or 502, 503 or 504. After the client's own timeout only a `GET` is: the service may still
 * be processing any other request, and cancels a request whose client disconnected. A 502 with a problem body is the service reporting
 * another server's failure after its own retries: each further attempt may cost a model call.
 */
const isRetriable = ({ idempotencyKey, method }: RetriableRequest, outcome: AttemptOutcome): boolean => {
  const isIdempotent = method === "GET" || idempotencyKey !== undefined
  if ("reason" in outcome) return isIdempotent && (outcome.reason !== TIMEOUT || method === "GET")
  const { contentType, status } = outcome
  const isOwnProblem = contentType?.startsWith("application/problem+json") === true
  return (
    status === TOO_MANY_REQUESTS ||
    (isIdempotent && TRANSIENT.has(status) && !(status === 502 && isOwnProblem))
  )
}

/** The date of HTTP (RFC 9110, section 5.6.7), in the form that servers send. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/

/** The delay that a `Retry-After` header asks for, in milliseconds; undefined if it is malformed. */
const parseRetryAfter = (header: string | undefined, now: number): number | undefined => {
  if (header === undefined) return undefined
  if (/^\d{1,10}$/.test(header)) return Number(header) * 1_000
  return HTTP_DATE.test(header) ? Math.max(0, Date.parse(header) - now) : undefined
}

/**
 * Returns the delay before the next attempt in milliseconds; undefined if the outcome of this one is final. `attempt` is its number from 0,
 * and `random` is from 0 to 1.
 */
export const retryDelay = (
  request: RetriableRequest,
  attempt: number,
  outcome: AttemptOutcome,
  now: number,
  random: number
): number | undefined => {
  if (attempt >= request.retries || !isRetriable(request, outcome)) return undefined
  const requested = "retryAfter" in outcome ? parseRetryAfter(outcome.retryAfter, now) : undefined
  if (requested === undefined || Number.isNaN(requested)) {
    return FIRST_DELAY_MILLIS * 2 ** attempt * (1 - random / 2)
  }
  return requested > MAX_DELAY_MILLIS ? undefined : requested
}
