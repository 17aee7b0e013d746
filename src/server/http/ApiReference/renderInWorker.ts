import { Effect } from "effect"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import type { RenderedReference } from "./render.ts"

/**
 * In the sources it is next to this file; in the package it is next to the command's bundle, one level above the chunks
 * of the libraries.
 */
const program = ["./worker.ts", "./api-reference.js", "../api-reference.js"]
  .map((file) => new URL(file, import.meta.url))
  .find((url) => existsSync(fileURLToPath(url)))

/**
 * Renders the API reference in a worker thread: rendering would block the event loop for 0.3 s, and keep 15 MB of code
 * that is needed once in memory.
 */
export const renderInWorker: Effect.Effect<RenderedReference> = Effect.promise(async () => {
  if (program === undefined) throw new Error("The program that renders the API reference is missing")
  // Without the Node.js options of the process and of NODE_OPTIONS: a worker does not accept options that size the heap,
  // and a module that `--import` preloads may fail in a second thread, for instance because it listens on a port.
  const worker = new Worker(program, { execArgv: [], env: { ...process.env, NODE_OPTIONS: "" } })
  try {
    const [rendered] = await once(worker, "message")
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker of this version posts nothing else
    return rendered as RenderedReference
  } finally {
    void worker.terminate()
  }
})
