/** Runs seeds in a thread of its own, one for each message. */
import { parentPort, workerData } from "node:worker_threads"
import { measureCoverage } from "./coverage.ts"
import { plant } from "./planted.ts"

const port = parentPort
if (port === null) throw new Error("This file is a worker thread of scripts/simulate.ts")

/** What the thread is started with. */
export interface WorkerOptions {
  readonly bug: string | undefined
  readonly measuresCoverage: boolean
}

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only scripts/simulate.ts starts this file
const { bug, measuresCoverage } = workerData as WorkerOptions
if (bug !== undefined) plant(bug)
const takeCoverage = measuresCoverage ? measureCoverage() : undefined
const { runSeed } = await import("./delivery/run.ts")

port.on("message", (message: unknown) => {
  if (typeof message === "number") port.postMessage(runSeed(message))
  else port.postMessage(takeCoverage?.() ?? [])
})
