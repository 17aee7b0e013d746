import type { Duration } from "./Duration.ts"

/** Options of one promise call. */
export interface CallOptions {
  /** Aborts the call. The service may have processed the request already. */
  readonly signal?: AbortSignal | undefined
  /**
   * Timeout of one attempt, up to the response headers, and as much again for the body of a response that is no stream. Default: that of the
   * client.
   */
  readonly timeout?: Duration | undefined
  /** Maximum retries if the request is idempotent. Default: the setting of the client. */
  readonly retries?: number | undefined
  /** Further request headers, such as `traceparent`. They cannot replace the client's own headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}
