/** Telemetry: `npm run bench -- telemetry [cost|latency|overload …]`; without a part, all three. */
import { runParts } from "./runParts.ts"
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

const parts = {
  cost: () => program("cost"),
  latency,
  overload: async () => {
    await program("overload", "hang")
    await program("overload", "slow")
  }
}

export const run = runParts(parts)
