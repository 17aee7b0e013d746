import { Context } from "effect"

/** The limits of one organization at a time. 0 is no limit. */
export interface OrganizationLimitValues {
  /** API keys that are neither revoked nor expired. Exact: counted in the transaction that creates a key. */
  readonly keys: number
  /** Open agent sessions. Counted by each replica, see `makeCountLimit`. */
  readonly openSessions: number
  /** Runs that wait for a model provider, in one replica. */
  readonly concurrentRuns: number
  /** Bytes of the inputs of these runs, in one replica. */
  readonly runBytes: number
  /** Logged runs, feedback records and stored bytes. Estimates, see `StoredUsage`. */
  readonly storedRuns: number
  readonly storedFeedback: number
  readonly storedBytes: number
  /** Test events per minute to one webhook endpoint, in one replica. */
  readonly testsPerMinute: number
  /** Challenges per minute to all webhook endpoints, in one replica. */
  readonly challengesPerMinute: number
  /** Addresses that are sent a verification link within an hour. Exact: counted in the transaction that requests a link. */
  readonly verificationLinksPerHour: number
}

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
