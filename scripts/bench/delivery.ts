/** The delivery engine: `npm run bench -- delivery [compare|backlog|growth|fairness …]`; all four where none is named. */
import { backlog } from "./delivery/backlog.ts"
import { compare } from "./delivery/compare.ts"
import { fairness } from "./delivery/fairness.ts"
import { growth } from "./delivery/growth.ts"

const parts: Readonly<Record<string, () => Promise<void>>> = { compare, backlog, fairness, growth }

/** Runs the parts named, one after the other. */
export const run = async (names: ReadonlyArray<string>): Promise<void> => {
  for (const name of names.length === 0 ? Object.keys(parts) : names) {
    const part = parts[name]
    if (part === undefined)
      throw new Error(`delivery has no part ${name}; it has ${Object.keys(parts).join(", ")}`)
    await part()
  }
}
