/**
 * Why a delivery is refused. A closed union: a `switch` over it can be exhaustive.
 *
 * - `missing_signature`: no `X-Svc-Signature` header
 * - `malformed_signature`: not `t=<unix seconds>,v1=<64 lowercase hex digits>`, with one or more `v1`
 * - `stale_timestamp`, `future_timestamp`: signed longer ago, or further ahead, than the tolerance
 * - `no_matching_signature`: not signed with one of the given secrets, or not over this body
 * - `body_not_json`: correctly signed, but not JSON
 * - `malformed_event`: correctly signed, but a field is missing or has the wrong type
 * - `unknown_event_type`: correctly signed, but of a type that this version does not know
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

/** A refused delivery. `message` is for the log: it contains neither the secret nor anything of the body. */
export interface Refusal<Reason extends string = RefusalReason> {
  readonly ok: false
  /** For programs: branch on this. */
  readonly reason: Reason
  /** The fault in one sentence, for people. */
  readonly message: string
}

export const refuse = <const Reason extends string>(reason: Reason, message: string): Refusal<Reason> => ({
  ok: false,
  reason,
  message
})
