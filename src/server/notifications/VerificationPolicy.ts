import { Context } from "effect"

/** What has to be verified before anything but the challenge is sent to it. */
export interface VerificationPolicyValues {
  /** Webhook endpoints, by a challenge that they answer. */
  readonly endpoints: boolean
}

/** The installation's policy. By default nothing has to be verified. */
export const VerificationPolicy = Context.Reference<VerificationPolicyValues>(
  "countersign/server/notifications/VerificationPolicy",
  { defaultValue: () => ({ endpoints: false }) }
)
