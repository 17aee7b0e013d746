/** Classification of transient failures. */

/** Returns the HTTP status of an error; undefined if no response arrived. */
const statusOf = (error: unknown): number | undefined => {
  const status = field(error, "status")
  return typeof status === "number" ? status : undefined
}

const field = (error: unknown, name: string): unknown =>
  typeof error === "object" && error !== null ? Reflect.get(error, name) : undefined

/** Whether an error is the problem of a code, in the form of either client. */
export const hasCode = (error: unknown, code: string): boolean => field(error, "code") === code

/** Whether the service is down: no response, or 5xx. */
export const isOutage = (error: unknown): boolean =>
  hasCode(error, "SERVICE_UNREACHABLE") || (statusOf(error) ?? 0) >= 500

/** Whether a failure is transient: no response, 408, 429 or 5xx. */
export const isTransient = (error: unknown): boolean => {
  const status = statusOf(error)
  return isOutage(error) || status === 408 || status === 429
}

/** Whether the service was busy or unreachable. Unlike {@link isTransient} this excludes 500: the same request would fail again. */
export const isUnavailable = (error: unknown): boolean => isTransient(error) && statusOf(error) !== 500

/** Returns the delay in milliseconds that the service asked for before a retry; 0 if it did not. */
export const requestedDelay = (error: unknown): number => {
  const seconds = field(error, "retry_after_seconds")
  return typeof seconds === "number" ? seconds * 1_000 : 0
}
