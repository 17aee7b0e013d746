/**
 * A token bucket whose state is one number: the time when it is full again (the generic cell rate algorithm, ITU-T I.371). A full bucket
 * needs no state, so a key without requests for `windowMillis` can be evicted. Times are milliseconds of a monotonic clock.
 */
export interface RateLimit {
  /** Milliseconds until one token is refilled. */
  readonly intervalMillis: number
  /** Milliseconds until an empty bucket is full. */
  readonly windowMillis: number
}

/** The result of one request. */
export interface RateLimitResult {
  readonly allowed: boolean
  /** The bucket's new state: when it is full again. */
  readonly fullAt: number
  /** Whole requests that are allowed immediately after this one. */
  readonly remaining: number
  /** Milliseconds until a request is allowed; 0 if this one was. */
  readonly waitMillis: number
}

/** A rate limit with a burst of one second's requests. */
export const rateLimit = (perSecond: number): RateLimit => ({
  intervalMillis: 1000 / perSecond,
  windowMillis: 1000
})

/** A rate limit of a number of requests in a longer window, with a burst of all of them. */
export const rateLimitWithin = (requests: number, windowMillis: number): RateLimit => ({
  intervalMillis: windowMillis / requests,
  windowMillis
})

/**
 * Takes a token, or several, from the bucket that is full at `fullAt`. A refused request takes none. One for more than the bucket holds is
 * allowed when the bucket is full: otherwise it never could be.
 */
export const takeToken = (limit: RateLimit, fullAt: number, now: number, count = 1): RateLimitResult => {
  const next = chargeTokens(limit, fullAt, now, count)
  const needed = Math.min(next, Math.max(fullAt, now) + limit.windowMillis)
  const remainingMillis = limit.windowMillis - (needed - now)
  // Tolerates a thousandth of a request: the rounding error of sums of fractions.
  return remainingMillis < -limit.intervalMillis / 1000
    ? { allowed: false, fullAt, remaining: 0, waitMillis: -remainingMillis }
    : {
        allowed: true,
        fullAt: next,
        remaining: Math.floor(remainingMillis / limit.intervalMillis + 0.001),
        waitMillis: 0
      }
}

/**
 * Takes the next token of the bucket that is full at `fullAt`, also if it is not there yet. The caller waits `waitMillis` and then uses it
 * without asking again.
 */
export const reserveToken = (
  limit: RateLimit,
  fullAt: number,
  now: number
): { readonly fullAt: number; readonly waitMillis: number } => {
  const next = chargeTokens(limit, fullAt, now, 1)
  const waitMillis = next - now - limit.windowMillis
  // Tolerates a thousandth of a request, as `takeToken`.
  return { fullAt: next, waitMillis: waitMillis > limit.intervalMillis / 1000 ? waitMillis : 0 }
}

/**
 * Takes tokens that may not be there yet, for work that has been admitted; a negative number gives tokens back. Returns when the bucket is
 * full again.
 */
export const chargeTokens = (limit: RateLimit, fullAt: number, now: number, count: number): number =>
  Math.max(fullAt, now) + count * limit.intervalMillis
