/** One attempt of a request, after its end. It holds no key, query or body. */
export interface LoggedAttempt {
  /** The client's method, such as `approvals.decide`. */
  readonly operation: string
  /** The HTTP method. */
  readonly method: string
  /** The path of the request, without its query. */
  readonly path: string
  /** The number of the attempt, from 1. */
  readonly attempt: number
  /** Milliseconds up to the response headers, or to the failure. */
  readonly duration_ms: number
  /** The HTTP status of the response; undefined if none arrived. */
  readonly status: number | undefined
  /** The cause's code if no response arrived, such as `ECONNREFUSED` or `TIMEOUT`. */
  readonly reason: string | undefined
  /** ID of the request at the service; undefined if no response arrived. */
  readonly request_id: string | undefined
  /** Milliseconds until the next attempt; undefined if this was the last one. */
  readonly retry_in_ms: number | undefined
}

/** Receives every attempt. An error that it throws or rejects with is printed, and does not affect the call. */
export type Log = (attempt: LoggedAttempt) => void
