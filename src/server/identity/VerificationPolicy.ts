import { Context, Layer } from "effect"

/** Resources that must be verified before they are sent anything but a challenge or a link. */
export interface VerificationPolicyValues {
  /** Webhook endpoints; they are verified by answering a challenge. */
  readonly endpoints: boolean
  /** Email addresses; their owners verify them by a link. */
  readonly emails: boolean
}

/** The installation's policy. */
export class VerificationPolicy extends Context.Service<VerificationPolicy, VerificationPolicyValues>()(
  "countersign/server/identity/VerificationPolicy"
) {
  /** Nothing has to be verified. */
  static readonly layerNone = Layer.succeed(VerificationPolicy, { endpoints: false, emails: false })
}
