/** Marks the errors of this package. Unlike `instanceof` it works across copies of the package. */
const MARK = Symbol.for("countersign/client/ClientError")

/** The base class of the client's own errors. They never contain the request, whose headers hold the API key. */
export abstract class ClientError extends Error {
  /** The stable code of the error, in upper snake case. Branch on this. */
  abstract readonly code: string
  /** The client's method that failed, such as `approvals.decide`. */
  readonly operation: string

  constructor(name: string, message: string, operation: string) {
    super(message)
    this.operation = operation
    // Not enumerable, because the stack begins with it: Node writes the stack when it is first read.
    Object.defineProperty(this, "name", { value: name, configurable: true, writable: true })
  }

  /** The code, for Effect's `catchTag`. */
  get _tag(): string {
    return this.code
  }

  get [MARK](): true {
    return true
  }
}

/** Whether an error is the client's own. */
export const isClientError = (error: unknown): error is ClientError =>
  typeof error === "object" && error !== null && MARK in error
