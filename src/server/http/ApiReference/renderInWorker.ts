import { Effect } from "effect"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import type { RenderedReference } from "./render.ts"

/** In the sources next to this file; in the package next to the bundle of the command, one level above the chunks of the libraries. */
const program = ["./worker.ts", "./api-reference.js", "../api-reference.js"]
  .map((file) => new URL(file, import.meta.url))
  .find((url) => existsSync(fileURLToPath(url)))

/**
 * Renders the API reference in a worker thread: it takes 0.3 s, in which the event loop would serve nobody, and 15 MB for code that is needed
 * once.
 */
export const renderInWorker: Effect.Effect<RenderedReference> = Effect.promise(async () => {
  if (program === undefined) throw new Error("The program that renders the API reference is missing")
  // None of the process's arguments for Node.js: those that size its memory do not fit a worker.
  const worker = new Worker(program, { execArgv: [] })
  try {
    const [rendered] = await once(worker, "message")
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker of this version posts nothing else
    return rendered as RenderedReference
  } finally {
    void worker.terminate()
  }
})
