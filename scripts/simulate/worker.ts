/** Runs seeds in a thread of its own, one for each message. */
import { parentPort, workerData } from "node:worker_threads"
import { plant } from "./planted.ts"

const port = parentPort
if (port === null) throw new Error("This file is a worker thread of scripts/simulate.ts")

const bug: unknown = workerData
if (typeof bug === "string") plant(bug)
const { runSeed } = await import("./delivery/run.ts")

port.on("message", (seed: unknown) => {
  if (typeof seed === "number") port.postMessage(runSeed(seed))
})
