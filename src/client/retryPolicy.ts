/** When and how late both clients retry. */

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

/** The facts that decide about a retry. `contentType` is the response's. */
export interface RetriedResponse {
  readonly status: number
  readonly contentType: string | undefined
}

/** Whether a request is idempotent: a read, or a request with an `Idempotency-Key`. */
export const isIdempotent = (method: string, idempotencyKey: string | undefined): boolean =>
  method === "GET" || idempotencyKey !== undefined

/**
 * Whether a response is worth a retry. A 502 with a problem body is the service reporting another server's failure after its own retries:
 * each further attempt may cost a model call.
 */
export const isRetriable = ({ contentType, status }: RetriedResponse, idempotent: boolean): boolean =>
  status === TOO_MANY_REQUESTS ||
  (idempotent &&
    TRANSIENT.has(status) &&
    !(status === 502 && contentType?.startsWith("application/problem+json") === true))

/** The date of HTTP (RFC 9110, section 5.6.7), in the form that servers send. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/

/** The delay that a `Retry-After` header asks for, in milliseconds; undefined if it is malformed. */
const parseRetryAfter = (header: string | undefined, now: number): number | undefined => {
  if (header === undefined) return undefined
  if (/^\d{1,10}$/.test(header)) return Number(header) * 1_000
  return HTTP_DATE.test(header) ? Math.max(0, Date.parse(header) - now) : undefined
}

/** Returns the delay before the next attempt in milliseconds; undefined if there is none. `random` is from 0 to 1. */
export const retryDelay = (
  attempt: number,
  retryAfter: string | undefined,
  now: number,
  random: number
): number | undefined => {
  const requested = parseRetryAfter(retryAfter, now)
  if (requested === undefined || Number.isNaN(requested)) {
    return FIRST_DELAY_MILLIS * 2 ** attempt * (1 - random / 2)
  }
  return requested > MAX_DELAY_MILLIS ? undefined : requested
}
