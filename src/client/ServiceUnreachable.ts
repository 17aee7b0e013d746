import { ClientError } from "./ClientError.ts"

/** The request that an error is about, without its query, headers and body. */
export interface FailedRequest {
  /** The client's method, such as `approvals.decide`. */
  readonly operation: string
  /** The HTTP method. */
  readonly method: string
  readonly url: URL
}

/** No response arrived, or it broke off: the service is down, its address is wrong, or the network failed. */
export class ServiceUnreachable extends ClientError {
  override readonly code = "SERVICE_UNREACHABLE"
  /** The HTTP method of the request. */
  readonly method: string
  /** The origin of the service: scheme, host and port. */
  readonly origin: string
  /** The path of the request, without its query. */
  readonly path: string
  /** The cause's code, such as `ECONNREFUSED`; `TIMEOUT` after the client's own timeout; `UNKNOWN` if the runtime tells nothing. */
  readonly reason: string

  constructor({ method, operation, url }: FailedRequest, reason: string, description = describe(reason)) {
    const message = `Cannot reach the service at ${url.origin}: ${description} (${method} ${url.pathname})`
    super("ServiceUnreachable", message, operation)
    this.method = method
    this.origin = url.origin
    this.path = url.pathname
    this.reason = reason
  }

  override get _tag(): "SERVICE_UNREACHABLE" {
    return this.code
  }
}

/** The reason after the client's own timeout. */
export const TIMEOUT = "TIMEOUT"

/** Causes by their code, as people read them. */
const descriptions: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  EPIPE: "connection closed",
  UND_ERR_SOCKET: "connection closed",
  ENOTFOUND: "host not found",
  EAI_AGAIN: "DNS lookup failed",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to the network",
  ETIMEDOUT: "connection timed out",
  UND_ERR_CONNECT_TIMEOUT: "connection timed out",
  UND_ERR_HEADERS_TIMEOUT: "no response in time",
  UND_ERR_BODY_TIMEOUT: "the response stalled",
  UNKNOWN: "no response"
}

const describe = (reason: string): string => descriptions[reason] ?? reason

/** How many causes deep a code is looked for: `fetch` wraps the socket's error once. */
const MAX_CAUSES = 5

/** Returns the code of a failure's cause. Nothing else of it is kept: its message can quote the request. */
export const reasonOf = (failure: unknown): string => {
  let error = failure
  for (let depth = 0; depth < MAX_CAUSES && typeof error === "object" && error !== null; depth++) {
    const code: unknown = Reflect.get(error, "code")
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return code
    error = Reflect.get(error, "cause")
  }
  return "UNKNOWN"
}
