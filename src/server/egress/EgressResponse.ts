/** A response. Any final status is a response, including redirects and errors; the caller interprets it. */
export interface EgressResponse {
  /** 200 to 999. */
  readonly status: number
  /** The header as the peer sent it, unparsed. */
  readonly retryAfter: string | undefined
  /** The bytes from the wire, not decoded, truncated at the request's `maxResponseBytes`. */
  readonly body: Uint8Array
  /** Whether `body` is complete; false if it was too long, broke off, or did not end before the deadline. */
  readonly complete: boolean
}
