/** When a destination that fails is left alone. */
export interface CooldownPolicy {
  /** Failures in a row that begin a cooldown. */
  readonly failureThreshold: number
  /**
   * The first cooldown, in milliseconds; each that follows without a success between is twice as long. 0: it is over as it begins, and
   * what follows are probes, one at a time without a wait between, until one gets through.
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
 * The health of one destination.
 *
 * ```
 *            failure (under `after` in a row)
 *               ┌────┐
 *               v    │        failures = after
 *  success ──> Open ─┴───────────────────────────> Cooling <─────────┐
 *               ^                                   │    ^           │
 *               │                         time over │    │ failure:  │ failure of an attempt that was
 *               │ success                           v    │ twice as  │ under way: counted, no longer wait
 *               └──────────────────────────────── Probing┘ long      └─ (Cooling stays)
 * ```
 *
 * A success leads to `Open` from everywhere: an attempt that was under way when the cooldown began may still get through.
 */
export type Health =
  | { readonly _tag: "Healthy"; readonly failures: number }
  | {
      readonly _tag: "CoolingDown"
      readonly failures: number
      /** Which cooldown in a row this is, from 1. */
      readonly round: number
      /** When it ends, in milliseconds, on the clock that the caller keeps. */
      readonly until: number
    }
  | { readonly _tag: "Probing"; readonly failures: number; readonly round: number }

/** A destination that nothing is known against. */
export const healthy: Health = { _tag: "Healthy", failures: 0 }

/** How long the cooldown of a round is, in milliseconds. */
export const cooldownMillis = (policy: CooldownPolicy, round: number): number =>
  Math.min(policy.longestMillis, policy.firstMillis * 2 ** Math.min(round - 1, 40))

/** After a success. */
export const recordSuccess = (health: Health): Health =>
  health._tag === "Healthy" && health.failures === 0 ? health : healthy

/** After a failed attempt, at `now`. */
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

/** As time goes by: a cooldown that is over lets one probe through. */
export const advance = (health: Health, now: number): Health =>
  health._tag === "CoolingDown" && health.until <= now
    ? { _tag: "Probing", failures: health.failures, round: health.round }
    : health

/** How many attempts may be under way at once; `concurrency` where nothing is against it. */
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
