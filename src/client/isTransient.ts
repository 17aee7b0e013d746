/** Failures that may be gone the next time. */
import { Duration } from "effect"
import { HttpClientError } from "effect/http"

/** The status that an error was answered with, as a problem of the contract or as it stands; undefined: there was none. */
const statusOf = (error: unknown): number | undefined => {
  if (HttpClientError.isHttpClientError(error)) return error.response?.status
  const status = field(error, "status")
  return typeof status === "number" ? status : undefined
}

const field = (error: unknown, name: string): unknown =>
  typeof error === "object" && error !== null ? Reflect.get(error, name) : undefined

/** Whether no answer came. */
const isUnanswered = (error: unknown): boolean =>
  HttpClientError.isHttpClientError(error) && error.reason._tag === "TransportError"

/** Whether an attempt failed for a reason that may be gone the next time: no answer, or 408, 429 and 5xx. */
export const isTransient = (error: unknown): boolean => {
  const status = statusOf(error) ?? 0
  return isUnanswered(error) || status === 408 || status === 429 || status >= 500
}

/** Whether the service was busy or out of reach. It did not fail at the request: with 500 it would again. */
export const isUnavailable = (error: unknown): boolean => isTransient(error) && statusOf(error) !== 500

/** How long the service wants to be left alone, where it says so. */
export const requestedDelay = (error: unknown): Duration.Duration => {
  const seconds = field(error, "retry_after_seconds")
  return typeof seconds === "number" ? Duration.seconds(seconds) : Duration.zero
}
