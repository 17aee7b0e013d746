/**
 * Why feedback was not stored. A later version of the service may add codes.
 *
 * - `INVALID_FEEDBACK_TOKEN`: the token expired or is used up. Ask your server for a new one.
 * - `INVALID_REQUEST`: the feedback has no score, or a score, label or comment that is not allowed.
 * - `LIMIT_REACHED`: the run has as much feedback as it can have.
 * - `RATE_LIMITED`: too much feedback at once. Try again later.
 * - `UNREACHABLE`: no response arrived, or the page may not read it: the network is down, or the page's origin is not among
 *   the `allowed_origins` of the feedback settings.
 */
export type FeedbackErrorCode =
  | "INVALID_FEEDBACK_TOKEN"
  | "INVALID_REQUEST"
  | "LIMIT_REACHED"
  | "RATE_LIMITED"
  | "UNREACHABLE"
  | (string & {})

/** Feedback was not stored. Branch on `code`. */
export class FeedbackError extends Error {
  readonly code: FeedbackErrorCode
  /** The status of the response; undefined if none arrived. */
  readonly status: number | undefined

  constructor(code: FeedbackErrorCode, message: string, options: { status?: number; cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined)
    this.name = "FeedbackError"
    this.code = code
    this.status = options.status
  }
}
