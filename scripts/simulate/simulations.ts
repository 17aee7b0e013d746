/** What can be simulated. The code is loaded when it runs, after bugs were planted in it. */
import { approvalBugs } from "./approvals/planted.ts"
import { plantedBugs } from "./planted.ts"

export type { SeedOutcome } from "./core/seeds.ts"

/** `covers`: the folders of `src` whose coverage is measured. */
export const simulations = {
  delivery: {
    load: () => import("./delivery/run.ts"),
    bugs: plantedBugs,
    covers: ["server/delivery/Delivery"]
  },
  approvals: {
    load: () => import("./approvals/run.ts"),
    bugs: approvalBugs,
    covers: ["server/approvals", "domain/approvals"]
  }
}

export const isSimulated = (name: unknown): name is keyof typeof simulations =>
  typeof name === "string" && Object.hasOwn(simulations, name)
