/** What can be simulated. The code is loaded when it runs, after bugs were planted in it. */
import { approvalBugs } from "./approvals/planted.ts"
import { plantedBugs } from "./planted.ts"

export type { SeedOutcome } from "./core/seeds.ts"

export const simulations = {
  delivery: { load: () => import("./delivery/run.ts"), bugs: plantedBugs },
  approvals: { load: () => import("./approvals/run.ts"), bugs: approvalBugs }
}

export const isSimulated = (name: unknown): name is keyof typeof simulations =>
  typeof name === "string" && Object.hasOwn(simulations, name)
