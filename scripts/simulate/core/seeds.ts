import type { Outcome } from "./runToEnd.ts"
import { shrink } from "./shrink.ts"

/** The result of a seed. */
export interface SeedOutcome extends Outcome {
  readonly seed: number
}

/** Makes the functions that run seeds, from those that make a plan and run it. */
export const makeSeeds = <Plan extends { readonly actions: ReadonlyArray<unknown> }>(
  makePlan: (seed: number) => Plan,
  run: (plan: Plan, trace?: (line: string) => void) => Outcome
) => {
  /** The plan of a seed, with those of its actions only whose places are listed. */
  const planOf = (seed: number, keep?: ReadonlyArray<number>): Plan => {
    const plan = makePlan(seed)
    return keep === undefined
      ? plan
      : { ...plan, actions: plan.actions.filter((_, place) => keep.includes(place)) }
  }

  /** Runs a seed, or a part of its plan. */
  const runSeed = (
    seed: number,
    keep?: ReadonlyArray<number>,
    trace?: (line: string) => void
  ): SeedOutcome => ({ seed, ...run(planOf(seed, keep), trace) })

  /** Finds few actions of a failing seed with which it still fails; returns their places. */
  const shrinkSeed = (seed: number, isTimeOver: () => boolean): ReadonlyArray<number> =>
    shrink(
      makePlan(seed).actions.map((_, place) => place),
      (keep) => runSeed(seed, keep).broken !== undefined,
      isTimeOver
    )

  return { runSeed, shrinkSeed }
}
