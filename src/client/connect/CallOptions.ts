/** Options of one promise call. */
export interface CallOptions {
  /** Aborts the call. The service may have processed the request already. */
  readonly signal?: AbortSignal
}
