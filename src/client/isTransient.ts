/** Classification of transient failures. */
import { Duration } from "effect"
import { HttpClientError } from "effect/http"

/** Returns the HTTP status of an error; undefined if no response arrived. */
const statusOf = (error: unknown): number | undefined => {
  if (HttpClientError.isHttpClientError(error)) return error.response?.status
  const status = field(error, "status")
  return typeof status === "number" ? status : undefined
}

const field = (error: unknown, name: string): unknown =>
  typeof error === "object" && error !== null ? Reflect.get(error, name) : undefined

/** Whether no response arrived. */
const isUnanswered = (error: unknown): boolean =>
  HttpClientError.isHttpClientError(error) && error.reason._tag === "TransportError"

/** Whether a failure is transient: no response, 408, 429 or 5xx. */
export const isTransient = (error: unknown): boolean => {
  const status = statusOf(error) ?? 0
  return isUnanswered(error) || status === 408 || status === 429 || status >= 500
}

/** Whether the service was busy or unreachable. Unlike {@link isTransient} this excludes 500: the same request would fail again. */
export const isUnavailable = (error: unknown): boolean => isTransient(error) && statusOf(error) !== 500

/** Returns the delay that the service asked for before a retry; zero if it did not. */
export const requestedDelay = (error: unknown): Duration.Duration => {
  const seconds = field(error, "retry_after_seconds")
  return typeof seconds === "number" ? Duration.seconds(seconds) : Duration.zero
}
