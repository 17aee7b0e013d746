import { makeSeeds } from "../core/seeds.ts"
import { makePlan } from "./Plan.ts"
import { World } from "./World.ts"

export const { runSeed, shrinkSeed } = makeSeeds(makePlan, (plan, trace) => new World(plan, trace).run())
