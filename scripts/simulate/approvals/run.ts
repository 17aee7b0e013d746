import { shrink } from "../core/shrink.ts"
import { makePlan, type Plan } from "./Plan.ts"
import { type Outcome, World } from "./World.ts"

/** The result of a seed. */
export interface SeedOutcome extends Outcome {
  readonly seed: number
}

/** The plan of a seed, with those of its actions only whose places are listed. */
const planOf = (seed: number, keep?: ReadonlyArray<number>): Plan => {
  const plan = makePlan(seed)
  return keep === undefined
    ? plan
    : { ...plan, actions: plan.actions.filter((_, place) => keep.includes(place)) }
}

/** Runs a seed, or a part of its plan. */
export const runSeed = (
  seed: number,
  keep?: ReadonlyArray<number>,
  trace?: (line: string) => void
): SeedOutcome => ({ seed, ...new World(planOf(seed, keep), trace).run() })

/** Finds few actions of a failing seed with which it still fails; returns their places. */
export const shrinkSeed = (seed: number, isTimeOver: () => boolean): ReadonlyArray<number> =>
  shrink(
    makePlan(seed).actions.map((_, place) => place),
    (keep) => runSeed(seed, keep).broken !== undefined,
    isTimeOver
  )
