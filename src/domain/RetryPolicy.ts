/** When failed attempts are made again. */
export interface RetryPolicy {
  /**
   * The wait before each attempt, in milliseconds; the first entry is the wait before the first attempt. There are as many
   * attempts as entries.
   */
  readonly delays: ReadonlyArray<number>
  /** How far a wait strays to either side, as a part of it: deliveries that failed together do not come back together. */
  readonly jitter: number
  /** The longest wait that a receiver can ask for by `Retry-After`, in milliseconds. */
  readonly longestRetryAfter: number
}

/** At once, then 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 4 h, 8 h: ten attempts over 15 h 43 min. */
export const defaultRetryPolicy: RetryPolicy = {
  delays: [0, 5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800].map((seconds) => seconds * 1000),
  jitter: 0.2,
  longestRetryAfter: 3_600_000
}

/**
 * The wait before the next attempt, in whole milliseconds, after `made` attempts (1 or more) have failed; null: none is left.
 * `random` is in [0, 1) and spreads the wait evenly over ±jitter. What the receiver asked for is a lower bound, up to the
 * longest that is honoured.
 */
export const nextDelay = (
  policy: RetryPolicy,
  made: number,
  random: number,
  retryAfter: number | null
): number | null => {
  const delay = policy.delays[made]
  if (delay === undefined) return null
  const spread = Math.round(delay * (1 + policy.jitter * (2 * random - 1)))
  return retryAfter === null ? spread : Math.max(spread, Math.min(retryAfter, policy.longestRetryAfter))
}
