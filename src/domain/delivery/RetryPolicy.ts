/** When failed attempts are made again. */
export interface RetryPolicy {
  /**
   * The wait before each attempt, in milliseconds; the first entry is the wait before the first attempt. There are as many
   * attempts as entries.
   */
  readonly delaysMillis: ReadonlyArray<number>
  /** How far a wait strays to either side, as a part of it: deliveries that failed together do not come back together. */
  readonly jitter: number
  /** The longest wait that a receiver can ask for by `Retry-After`, in milliseconds. */
  readonly maxRetryAfterMillis: number
  /**
   * The longest time from the queueing, or the replay, to the beginning of the last attempt, in milliseconds; null: as long as the
   * delays last. The first attempt is made however late it is, unless its destination fails: then what comes too late is not sent.
   */
  readonly maxElapsedMillis: number | null
}

/** At once, then 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 4 h, 8 h: ten attempts over 15 h 43 min. */
export const defaultRetryPolicy: RetryPolicy = {
  delaysMillis: [0, 5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800].map((seconds) => seconds * 1000),
  jitter: 0.2,
  maxRetryAfterMillis: 3_600_000,
  maxElapsedMillis: null
}

/**
 * A policy whose waits grow by a factor, from `first` to `longest`, until `within` is over; the first attempt is made at once. All in
 * milliseconds.
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
  // As many as fit if each strays to its shortest: it is the time that ends them, never the list.
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

/** The longest list of waits that is made. */
const MAX_ATTEMPTS = 1_000

/**
 * The wait before the next attempt, in whole milliseconds, after `made` attempts have failed, 0 before the first; null: none is left,
 * or it would come later than in `left`. `random` is in [0, 1) and spreads the wait evenly over ±jitter. What the receiver asked for is
 * a lower bound, up to the longest that is honoured.
 */
export const nextDelay = (
  policy: RetryPolicy,
  made: number,
  random: number,
  retryAfter: number | null,
  left: number
): number | null => {
  const delay = policy.delaysMillis[made]
  if (delay === undefined) return null
  const spread = Math.round(delay * (1 + policy.jitter * (2 * random - 1)))
  const wait =
    retryAfter === null ? spread : Math.max(spread, Math.min(retryAfter, policy.maxRetryAfterMillis))
  return wait > left ? null : wait
}
