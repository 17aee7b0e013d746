import { ClientError } from "./ClientError.ts"
import type { FailedRequest } from "./ServiceUnreachable.ts"

/** A response outside the contract: a status that the operation does not have, or a body that does not decode. Often another server's. */
export class UnexpectedResponse extends ClientError {
  override readonly code = "UNEXPECTED_RESPONSE"
  /** The HTTP method of the request. */
  readonly method: string
  /** The origin of the server: scheme, host and port. */
  readonly origin: string
  /** The path of the request, without its query. */
  readonly path: string
  /** The HTTP status of the response. */
  readonly status: number

  constructor({ method, operation, url }: FailedRequest, status: number, description: string) {
    const message = `Unexpected response from ${url.origin}, status ${status}: ${description} (${method} ${url.pathname})`
    super("UnexpectedResponse", message, operation)
    this.method = method
    this.origin = url.origin
    this.path = url.pathname
    this.status = status
  }

  override get _tag(): "UNEXPECTED_RESPONSE" {
    return this.code
  }
}
