/** How both clients follow a session's events. */

/** Maximum delay between two connection attempts that the service did not ask for. */
const MAX_DELAY_MILLIS = 30_000

/** Maximum doublings of the delay, to keep the numbers small. */
const MAX_DOUBLINGS = 20

/** A connection without a byte for this long, three heartbeats, is considered dead. */
export const SILENCE_MILLIS = 45_000

/** The default delay before reconnecting. */
export const DEFAULT_RECONNECT_MILLIS = 3_000

/** Number of sessions whose latest event is tracked. */
export const MAX_TRACKED_SESSIONS = 1_000

/** Longest event in characters. */
export const MAX_EVENT_CHARACTERS = 10 * 2 ** 20

/**
 * Exponential backoff in milliseconds, at least as long as the service asks for, with up to 20% jitter so that clients do not reconnect
 * simultaneously. `random` is from 0 to 1.
 */
export const reconnectDelay = (
  retry: number,
  failures: number,
  requested: number,
  random: number
): number => {
  const doubled = retry * 2 ** Math.min(failures, MAX_DOUBLINGS)
  return Math.max(Math.min(doubled, MAX_DELAY_MILLIS), requested) * (1 + random / 5)
}
