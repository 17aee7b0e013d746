/** Session streams: `npm run bench -- stream [idle|decisions …]`; without a part, both. */
import { decisions } from "./stream/decisions.ts"

const parts: Readonly<Record<string, () => Promise<unknown>>> = {
  idle: () => import("./stream/idle.ts"),
  decisions
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
