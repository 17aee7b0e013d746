/** The limits of one organization at a time. 0 is no limit. */
export interface OrganizationLimitValues {
  /** API keys that are neither revoked nor expired. Exact: counted in the transaction that creates a key. */
  readonly keys: number
  /** Open agent sessions. Counted by each replica. */
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
