/**
 * Why a delivery is not believed. The list is closed: a `switch` over it can be exhaustive.
 *
 * - `missing_signature`: no `X-Svc-Signature` header
 * - `malformed_signature`: not `t=<unix seconds>,v1=<64 lowercase hex digits>`, with one or more `v1`
 * - `stale_timestamp`, `future_timestamp`: signed longer ago, or further ahead, than the tolerance
 * - `no_matching_signature`: signed with no secret that is known here, or not over this body
 * - `body_not_json`: rightly signed, and no JSON
 * - `malformed_event`: rightly signed, and a field is missing or of another shape
 * - `unknown_event_type`: rightly signed, and of a type that this version does not know
 */
export type RefusalReason =
  | "missing_signature"
  | "malformed_signature"
  | "stale_timestamp"
  | "future_timestamp"
  | "no_matching_signature"
  | "body_not_json"
  | "malformed_event"
  | "unknown_event_type"

/** A delivery that is not believed. `message` is for a log: it holds neither the secret nor anything of the body. */
export interface Refusal<Reason extends string = RefusalReason> {
  readonly ok: false
  readonly reason: Reason
  readonly message: string
}

export const refuse = <const Reason extends string>(reason: Reason, message: string): Refusal<Reason> => ({
  ok: false,
  reason,
  message
})
