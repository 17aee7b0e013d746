import { ClientError, isClientError } from "../ClientError.ts"
import type { ServiceUnreachable } from "../ServiceUnreachable.ts"
import type { UnexpectedResponse } from "../UnexpectedResponse.ts"
import type { ClientClosed } from "./ClientClosed.ts"
import type { DecisionTimeout } from "./DecisionTimeout.ts"
import type { AnyServiceProblem } from "./generated/Operations.ts"

/** One invalid field of a request. */
export interface FieldError {
  /** JSON Pointer to the field, in URI fragment form (RFC 6901). */
  readonly pointer: string
  /** The fault of the field. Never contains the value. */
  readonly detail: string
}

/** The members of every problem of the service (RFC 9457). */
export interface ServiceProblem extends Error {
  /** Stable code of the problem, in upper snake case. Branch on this. */
  readonly code: string
  /** The HTTP status. */
  readonly status: number
  /** The client's method that failed, such as `approvals.decide`. */
  readonly operation: string
  /** URI of the kind of problem. */
  readonly type: string
  /** The kind of problem, as a short phrase. */
  readonly title: string
  /** What happened, then what to do. Absent if the title says it all. */
  readonly detail?: string
  /** ID of the request. Include it when you report a problem. Absent if the client refused the input itself. */
  readonly request_id?: string
  /** The invalid fields, if the problem is about fields. */
  readonly errors?: ReadonlyArray<FieldError>
}

/** The error with which a call of {@link connect}'s client rejects, unless its signal aborted it. `code` tells which one. */
export type Problem =
  | AnyServiceProblem
  | ServiceUnreachable
  | UnexpectedResponse
  | DecisionTimeout
  | ClientClosed

/** The codes of {@link Problem}. */
export type ProblemCode = Problem["code"]

/**
 * Whether an error is a problem of a call, and one with one of these codes if any are given.
 *
 * ```ts
 * if (isProblem(error, "APPROVAL_EXPIRED", "APPROVAL_ALREADY_DECIDED")) return error.approval.outcome
 * ```
 */
export const isProblem = <const Code extends ProblemCode = ProblemCode>(
  error: unknown,
  ...codes: ReadonlyArray<Code>
): error is Extract<Problem, { readonly code: Code }> =>
  isClientError(error) && (codes.length === 0 || codes.some((code) => code === error.code))

/** A problem of the service as an error. It has the members of the response, checked and with times as `Date`. */
export class ProblemError extends ClientError {
  override readonly code: string

  constructor(code: string, members: Readonly<Record<string, unknown>>, operation: string) {
    super(code, String(members["detail"] ?? members["title"]), operation)
    this.code = code
    Object.assign(this, members)
  }
}
