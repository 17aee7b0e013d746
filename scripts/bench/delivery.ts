/** The delivery engine: `npm run bench -- delivery [compare|backlog|growth|fairness|hanging|alone …]`; without a part, all of them. */
import { runParts } from "./runParts.ts"
import { alone } from "./delivery/alone.ts"
import { backlog } from "./delivery/backlog.ts"
import { compare } from "./delivery/compare.ts"
import { fairness } from "./delivery/fairness.ts"
import { growth } from "./delivery/growth.ts"
import { hanging } from "./delivery/hanging.ts"

const parts = {
  compare,
  backlog,
  fairness,
  growth,
  hanging,
  alone
}

export const run = runParts(parts)
