/** Runs seeds in a thread of its own, one for each message. */
import { parentPort, workerData } from "node:worker_threads"
import { plant } from "./planted.ts"
import { simulations } from "./simulations.ts"

const port = parentPort
if (port === null) throw new Error("This file is a worker thread of scripts/simulate.ts")

/** What the thread is started with. */
export interface WorkerOptions {
  readonly what: keyof typeof simulations
  readonly bug: string | undefined
}

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only scripts/simulate.ts starts this file
const { bug, what } = workerData as WorkerOptions
if (bug !== undefined) plant(bug)
const { runSeed } = await simulations[what].load()

port.on("message", (seed: unknown) => {
  if (typeof seed === "number") port.postMessage(runSeed(seed))
})
