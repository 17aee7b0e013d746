/** The delivery engine: `npm run bench -- delivery [compare|backlog|growth|fairness|hanging|alone …]`; without a part, all of them. */
import { alone } from "./delivery/alone.ts"
import { backlog } from "./delivery/backlog.ts"
import { compare } from "./delivery/compare.ts"
import { fairness } from "./delivery/fairness.ts"
import { growth } from "./delivery/growth.ts"
import { hanging } from "./delivery/hanging.ts"

const parts: Readonly<Record<string, () => Promise<void>>> = {
  compare,
  backlog,
  fairness,
  growth,
  hanging,
  alone
}

/** Runs the named parts one after another. */
export const run = async (names: ReadonlyArray<string>): Promise<void> => {
  for (const name of names.length === 0 ? Object.keys(parts) : names) {
    const part = parts[name]
    if (part === undefined)
      throw new Error(`Unknown part ${name}. Available: ${Object.keys(parts).join(", ")}`)
    await part()
  }
}
