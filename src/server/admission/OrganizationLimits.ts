import { Context, Layer } from "effect"
import type { OrganizationLimitValues } from "../../domain/identity/OrganizationLimitValues.ts"

/** The limits of every organization of the installation. */
export class OrganizationLimits extends Context.Service<OrganizationLimits, OrganizationLimitValues>()(
  "countersign/server/admission/OrganizationLimits"
) {
  /** No limits, for the command line. */
  static readonly layerNone = Layer.succeed(OrganizationLimits, {
    keys: 0,
    openSessions: 0,
    concurrentRuns: 0,
    runBytes: 0,
    storedRuns: 0,
    storedFeedback: 0,
    storedBytes: 0,
    testsPerMinute: 0,
    challengesPerMinute: 0,
    verificationLinksPerHour: 0
  })
}
