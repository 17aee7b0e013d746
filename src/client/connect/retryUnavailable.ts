import { isUnavailable, requestedDelay } from "../isTransient.ts"
import { sleep } from "./wait.ts"

/** Delay before the first retry. Each following one doubles, with 20% jitter. */
const FIRST_DELAY_MILLIS = 500

/** The longest delay that a service can ask for. */
const MAX_DELAY_MILLIS = 30_000

const never = new AbortController().signal

interface RetryUnavailableOptions {
  /** Retries after the client's own. */
  readonly retries: number
  readonly signal?: AbortSignal | undefined
}

/** Sends an idempotent request again while the service is busy or unreachable. */
export const retryUnavailable = async <A>(
  send: () => Promise<A>,
  { retries, signal = never }: RetryUnavailableOptions
): Promise<A> => {
  for (let attempt = 0; ; attempt++) {
    try {
      return await send()
    } catch (error) {
      signal.throwIfAborted()
      if (attempt >= retries || !isUnavailable(error)) throw error
      const backoff = FIRST_DELAY_MILLIS * 2 ** attempt * (0.8 + Math.random() * 0.4)
      await sleep(Math.min(Math.max(backoff, requestedDelay(error)), MAX_DELAY_MILLIS), signal)
    }
  }
}
