import { Effect } from "effect"

/** Turns of the event loop in which promises, bodies of responses and the fibers that wait for them settle. */
const TURNS = 100

/** Lets everything go on that waits for nothing but other promises. */
export const yieldToPromises = Effect.promise(async () => {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve))
})
