import { Context } from "effect"

/** Resources that must be verified before they are sent anything but a challenge or a link. */
export interface VerificationPolicyValues {
  /** Webhook endpoints; they are verified by answering a challenge. */
  readonly endpoints: boolean
  /** Email addresses; their owners verify them by a link. */
  readonly emails: boolean
}

/** The installation's policy. By default nothing has to be verified. */
export const VerificationPolicy = Context.Reference<VerificationPolicyValues>(
  "countersign/server/identity/VerificationPolicy",
  { defaultValue: () => ({ endpoints: false, emails: false }) }
)
