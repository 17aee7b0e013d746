/** A worker thread that renders the API reference once, posts it, and ends. */
import { Effect } from "effect"
import { parentPort } from "node:worker_threads"
import { renderReference } from "./render.ts"

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has no origin
parentPort?.postMessage(await Effect.runPromise(renderReference))
