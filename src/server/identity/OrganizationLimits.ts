import { Context } from "effect"
import type { OrganizationLimitValues } from "../../domain/identity/OrganizationLimitValues.ts"

/** The limits of every organization of the installation. By default there are none. */
export const OrganizationLimits = Context.Reference<OrganizationLimitValues>(
  "countersign/server/identity/OrganizationLimits",
  {
    defaultValue: () => ({
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
)
