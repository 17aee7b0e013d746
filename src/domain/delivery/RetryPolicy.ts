/** When failed attempts are retried. */
export interface RetryPolicy {
  /**
   * The delay before each attempt, in milliseconds; the first entry is the delay before the first attempt. There are as many attempts as
   * entries.
   */
  readonly delaysMillis: ReadonlyArray<number>
  /** Jitter, as a fraction of the delay, to either side: deliveries that failed together are not retried together. */
  readonly jitter: number
  /** The longest `Retry-After` that is honoured, in milliseconds. */
  readonly maxRetryAfterMillis: number
  /**
   * The longest time from enqueueing, or from a replay, to the start of the last attempt, in milliseconds; null: no limit beyond the
   * schedule. The first attempt is made however late, unless its destination is failing: then an expired delivery is not sent.
   */
  readonly maxElapsedMillis: number | null
}

/** Immediately, then after 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 4 h and 8 h: ten attempts over 15 h 43 min. */
export const defaultRetryPolicy: RetryPolicy = {
  delaysMillis: [0, 5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800].map((seconds) => seconds * 1000),
  jitter: 0.2,
  maxRetryAfterMillis: 3_600_000,
  maxElapsedMillis: null
}

/**
 * Returns a policy with exponential backoff: an immediate first attempt, then delays that grow by `factor` from `firstMillis` to
 * `longestMillis` until `maxElapsedMillis` has passed.
 */
export const exponentialRetryPolicy = (options: {
  readonly firstMillis: number
  readonly factor: number
  readonly longestMillis: number
  readonly maxElapsedMillis: number
  readonly jitter: number
}): RetryPolicy => {
  const { factor, firstMillis, jitter, longestMillis, maxElapsedMillis } = options
  const delaysMillis = [0]
  // Enough delays even if jitter shortens each to its minimum: the elapsed time ends the retries, never the end of the list.
  for (
    let wait = firstMillis, shortest = 0;
    shortest <= maxElapsedMillis && delaysMillis.length < MAX_ATTEMPTS;
  ) {
    delaysMillis.push(wait)
    shortest += wait * (1 - jitter)
    wait = Math.min(longestMillis, wait * factor)
  }
  return { delaysMillis, jitter, maxRetryAfterMillis: maxElapsedMillis, maxElapsedMillis }
}

/** The most delays in a policy. */
const MAX_ATTEMPTS = 1_000

/**
 * Returns the delay before the next attempt after `attemptsMade` failed attempts, in whole milliseconds; null if none is left or the
 * attempt would start after `remainingMillis`. `random` is in [0, 1) and spreads the delay evenly over ±jitter. `retryAfter` is a lower
 * bound, up to the longest that is honoured.
 */
export const nextDelay = (
  policy: RetryPolicy,
  attemptsMade: number,
  random: number,
  retryAfter: number | null,
  remainingMillis: number
): number | null => {
  const delay = policy.delaysMillis[attemptsMade]
  if (delay === undefined) return null
  const spread = Math.round(delay * (1 + policy.jitter * (2 * random - 1)))
  const wait =
    retryAfter === null ? spread : Math.max(spread, Math.min(retryAfter, policy.maxRetryAfterMillis))
  return wait > remainingMillis ? null : wait
}
