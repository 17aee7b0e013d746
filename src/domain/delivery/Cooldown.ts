/** When a destination that fails is left alone. */
export interface CooldownPolicy {
  /** Failures in a row that begin a cooldown. */
  readonly after: number
  /**
   * The first cooldown, in milliseconds; each that follows without a success between is twice as long. 0: it is over as it begins, and
   * what follows are probes, one at a time without a wait between, until one gets through.
   */
  readonly first: number
  /** The longest cooldown, in milliseconds. */
  readonly longest: number
}

/** Five failures in a row; 30 s, doubling to 15 min. */
export const defaultCooldownPolicy: CooldownPolicy = { after: 5, first: 30_000, longest: 900_000 }

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
  | { readonly _tag: "Open"; readonly failures: number }
  | {
      readonly _tag: "Cooling"
      readonly failures: number
      /** Which cooldown in a row this is, from 1. */
      readonly round: number
      /** When it ends, in milliseconds, on the clock that the caller keeps. */
      readonly until: number
    }
  | { readonly _tag: "Probing"; readonly failures: number; readonly round: number }

/** A destination that nothing is known against. */
export const healthy: Health = { _tag: "Open", failures: 0 }

/** How long the cooldown of a round is, in milliseconds. */
export const cooldownLength = (policy: CooldownPolicy, round: number): number =>
  Math.min(policy.longest, policy.first * 2 ** Math.min(round - 1, 40))

/** After a success. */
export const succeeded = (health: Health): Health =>
  health._tag === "Open" && health.failures === 0 ? health : healthy

/** After a failed attempt, at `now`. */
export const failed = (health: Health, policy: CooldownPolicy, now: number): Health => {
  const failures = health.failures + 1
  switch (health._tag) {
    case "Open":
      return failures < policy.after
        ? { _tag: "Open", failures }
        : { _tag: "Cooling", failures, round: 1, until: now + cooldownLength(policy, 1) }
    case "Cooling":
      return { ...health, failures }
    case "Probing": {
      const round = health.round + 1
      return { _tag: "Cooling", failures, round, until: now + cooldownLength(policy, round) }
    }
  }
}

/** As time goes by: a cooldown that is over lets one probe through. */
export const at = (health: Health, now: number): Health =>
  health._tag === "Cooling" && health.until <= now
    ? { _tag: "Probing", failures: health.failures, round: health.round }
    : health

/** How many attempts may be under way at once; `concurrency` where nothing is against it. */
export const allowance = (health: Health, concurrency: number): number => {
  switch (health._tag) {
    case "Open":
      return concurrency
    case "Cooling":
      return 0
    case "Probing":
      return Math.min(1, concurrency)
  }
}
