/** Telemetry: `npm run bench -- telemetry [cost|latency|overload …]`; without a part, all three. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { bundle } from "./bundle.ts"
import { latency } from "./telemetry/latency.ts"

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

/** Runs a program in a process of its own, with the Node flags of `npm start`. */
const program = async (name: "cost" | "overload", ...args: ReadonlyArray<string>): Promise<void> => {
  const fileOf = await bundle({ cost: here("telemetry/cost.ts"), overload: here("telemetry/overload.ts") })
  const child = spawn(process.execPath, ["--max-semi-space-size=8", fileOf(name), ...args], {
    stdio: "inherit"
  })
  const [status] = await once(child, "exit")
  if (status !== 0) process.exitCode = 1
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  cost: () => program("cost"),
  latency,
  overload: async () => {
    await program("overload", "hang")
    await program("overload", "slow")
  }
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
