import { isUnavailable, requestedDelay } from "../isTransient.ts"
import { type Clock, never, systemClock } from "./wait.ts"

/** Delay before the first retry. Each following one doubles up to the maximum, with 20% jitter. */
const FIRST_DELAY_MILLIS = 500
const MAX_DELAY_MILLIS = 30_000

interface RetryUnavailableOptions {
  /** Retries after the client's own. */
  readonly retries: number
  readonly clock?: Clock
  readonly signal?: AbortSignal | undefined
}

/** Sends an idempotent request again while the service is busy or unreachable, and not before the delay that the service requested. */
export const retryUnavailable = async <A>(
  send: () => Promise<A>,
  { clock = systemClock, retries, signal = never }: RetryUnavailableOptions
): Promise<A> => {
  for (let attempt = 0; ; attempt++) {
    try {
      return await send()
    } catch (error) {
      signal.throwIfAborted()
      if (attempt >= retries || !isUnavailable(error)) throw error
      const backoff = FIRST_DELAY_MILLIS * 2 ** Math.min(attempt, 20) * (0.8 + clock.random() * 0.4)
      await clock.sleep(Math.max(Math.min(backoff, MAX_DELAY_MILLIS), requestedDelay(error)), signal)
    }
  }
}
