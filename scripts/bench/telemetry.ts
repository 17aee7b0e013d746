/** Telemetry: `npm run bench -- telemetry [cost|latency|overload …]`; all three where none is named. */
import { cost } from "./telemetry/cost.ts"
import { latency } from "./telemetry/latency.ts"
import { overload } from "./telemetry/overload.ts"

const parts: Readonly<Record<string, () => Promise<void>>> = { cost, latency, overload }

/** Runs the parts named, one after the other. */
export const run = async (names: ReadonlyArray<string>): Promise<void> => {
  for (const name of names.length === 0 ? Object.keys(parts) : names) {
    const part = parts[name]
    if (part === undefined)
      throw new Error(`telemetry has no part ${name}; it has ${Object.keys(parts).join(", ")}`)
    await part()
  }
}
