import { Context } from "effect"

/** Resources that must be verified before they get anything but a challenge. */
export interface VerificationPolicyValues {
  /** Webhook endpoints; they are verified by answering a challenge. */
  readonly endpoints: boolean
}

/** The installation's policy. By default nothing has to be verified. */
export const VerificationPolicy = Context.Reference<VerificationPolicyValues>(
  "countersign/server/notifications/VerificationPolicy",
  { defaultValue: () => ({ endpoints: false }) }
)
