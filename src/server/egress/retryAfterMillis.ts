import { Duration, Result } from "effect"
import { Headers } from "effect/http"

/**
 * Parses a `Retry-After` header (RFC 9110, 10.2.3) to a delay in whole milliseconds from `nowMillis`: 0 for a date in
 * the past, null for a header that is neither a number of seconds nor an HTTP date. A huge delay is capped at the
 * largest safe integer.
 */
export const retryAfterMillis = (header: string, nowMillis: number): number | null =>
  Result.match(Headers.parseRetryAfter(header), {
    onFailure: () => null,
    onSuccess: (value) =>
      Math.min(Number.MAX_SAFE_INTEGER, Duration.toMillis(Headers.retryAfterDelay(value, nowMillis)))
  })
