/** When a failing destination enters cooldown, and for how long. */
export interface CooldownPolicy {
  /** Consecutive failures that start a cooldown. */
  readonly failureThreshold: number
  /**
   * The first cooldown, in milliseconds. Each following cooldown without a success in between is twice as long. 0 disables waiting: the
   * cooldown ends as it starts, and a failing destination is probed one attempt at a time until one succeeds.
   */
  readonly firstMillis: number
  /** The longest cooldown, in milliseconds. */
  readonly longestMillis: number
}

/** Five failures in a row; 30 s, doubling to 15 min. */
export const defaultCooldownPolicy: CooldownPolicy = {
  failureThreshold: 5,
  firstMillis: 30_000,
  longestMillis: 900_000
}

/**
 * The health of one destination: a circuit breaker with the states closed, open and half-open.
 *
 * ```
 *            failure (under `failureThreshold` in a row)
 *                  ┌────┐
 *                  v    │        failures = failureThreshold
 *  success ──> Healthy ─┴─────────────────────> CoolingDown <─────────┐
 *                  ^                              │     ^             │
 *                  │                cooldown over │     │ failure:    │ failure of an attempt that was already
 *                  │ success                      v     │ twice as    │ running: counted, cooldown unchanged
 *                  └───────────────────────────── Probing long        └─ (stays CoolingDown)
 * ```
 *
 * A success leads to `Healthy` from every state: an attempt that was running when the cooldown started may still succeed. Effect's
 * `CircuitBreaker` needs a call to its store for each attempt; this state is pure, held in memory and persisted on a transition.
 */
export type Health =
  | { readonly _tag: "Healthy"; readonly failures: number }
  | {
      readonly _tag: "CoolingDown"
      readonly failures: number
      /** Number of consecutive cooldowns, from 1. */
      readonly round: number
      /** When the cooldown ends, in milliseconds on the caller's clock. */
      readonly until: number
    }
  | { readonly _tag: "Probing"; readonly failures: number; readonly round: number }

/** The health of a destination without failures. */
export const healthy: Health = { _tag: "Healthy", failures: 0 }

/** Returns the length of the cooldown of a round, in milliseconds. */
export const cooldownMillis = (policy: CooldownPolicy, round: number): number =>
  Math.min(policy.longestMillis, policy.firstMillis * 2 ** Math.min(round - 1, 40))

/** Returns the health after a successful attempt. */
export const recordSuccess = (health: Health): Health =>
  health._tag === "Healthy" && health.failures === 0 ? health : healthy

/** Returns the health after an attempt that failed at `now`. */
export const recordFailure = (health: Health, policy: CooldownPolicy, now: number): Health => {
  const failures = health.failures + 1
  switch (health._tag) {
    case "Healthy":
      return failures < policy.failureThreshold
        ? { _tag: "Healthy", failures }
        : { _tag: "CoolingDown", failures, round: 1, until: now + cooldownMillis(policy, 1) }
    case "CoolingDown":
      return { ...health, failures }
    case "Probing": {
      const round = health.round + 1
      return { _tag: "CoolingDown", failures, round, until: now + cooldownMillis(policy, round) }
    }
  }
}

/** Returns the health at `now`: a cooldown that has ended becomes `Probing`, which admits one attempt. */
export const advance = (health: Health, now: number): Health =>
  health._tag === "CoolingDown" && health.until <= now
    ? { _tag: "Probing", failures: health.failures, round: health.round }
    : health

/**
 * Returns the health after a caller requested an attempt: a cooldown ends at once, and the next attempt is its probe.
 */
export const endCooldown = (health: Health): Health =>
  health._tag === "CoolingDown" ? { _tag: "Probing", failures: health.failures, round: health.round } : health

/** Returns how many attempts may run concurrently: `concurrency` for a healthy destination. */
export const concurrencyLimit = (health: Health, concurrency: number): number => {
  switch (health._tag) {
    case "Healthy":
      return concurrency
    case "CoolingDown":
      return 0
    case "Probing":
      return Math.min(1, concurrency)
  }
}
