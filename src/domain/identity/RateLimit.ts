/**
 * A token bucket as one number: the time at which it is full again (the generic cell rate algorithm, ITU-T I.371). A bucket that is
 * full needs no number at all, so whoever has been quiet for `windowMillis` may be forgotten. Times are milliseconds of a clock that
 * does not go back.
 */
export interface RateLimit {
  /** Requests a second that may go on for ever. */
  readonly perSecond: number
  /** Milliseconds in which one request is made good. */
  readonly intervalMillis: number
  /** Milliseconds in which an empty bucket fills. */
  readonly windowMillis: number
}

/** What became of one request. */
export interface RateLimitResult {
  readonly allowed: boolean
  /** When the bucket is full again: its state. */
  readonly fullAt: number
  /** Whole requests that may follow at once. */
  readonly remaining: number
  /** Milliseconds until a request is allowed; 0 where it was. */
  readonly waitMillis: number
}

/** A rate, with a burst of as many requests again. */
export const rateLimit = (perSecond: number): RateLimit => ({
  perSecond,
  intervalMillis: 1000 / perSecond,
  windowMillis: 1000
})

/** Takes one request out of the bucket that is full at `fullAt`. One that is refused costs nothing. */
export const takeToken = (limit: RateLimit, fullAt: number, now: number): RateLimitResult => {
  const next = Math.max(fullAt, now) + limit.intervalMillis
  const room = limit.windowMillis - (next - now)
  // A thousandth of a request: what sums of fractions may be off.
  return room < -limit.intervalMillis / 1000
    ? { allowed: false, fullAt, remaining: 0, waitMillis: -room }
    : {
        allowed: true,
        fullAt: next,
        remaining: Math.floor(room / limit.intervalMillis + 0.001),
        waitMillis: 0
      }
}
