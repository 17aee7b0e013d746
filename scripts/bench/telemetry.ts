/** Telemetry: `npm run bench -- telemetry [cost|latency|overload …]`; all three where none is named. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { bundle } from "./bundle.ts"
import { latency } from "./telemetry/latency.ts"

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

/** Runs a program in a process of its own, with the flags that the service starts with. */
const program = async (name: "cost" | "overload", ...words: ReadonlyArray<string>): Promise<void> => {
  const fileOf = await bundle({ cost: here("telemetry/cost.ts"), overload: here("telemetry/overload.ts") })
  const own = spawn(process.execPath, ["--max-semi-space-size=8", fileOf(name), ...words], {
    stdio: "inherit"
  })
  const [status] = await once(own, "exit")
  if (status !== 0) throw new Error(`the process of ${name} ended with ${String(status)}`)
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  cost: () => program("cost"),
  latency,
  overload: async () => {
    await program("overload", "hang")
    await program("overload", "slow")
  }
}

/** Runs the parts named, one after the other. */
export const run = async (names: ReadonlyArray<string>): Promise<void> => {
  for (const name of names.length === 0 ? Object.keys(parts) : names) {
    const part = parts[name]
    if (part === undefined)
      throw new Error(`telemetry has no part ${name}; it has ${Object.keys(parts).join(", ")}`)
    await part()
  }
}
