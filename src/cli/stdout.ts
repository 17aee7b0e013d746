import { Effect } from "effect"
import type { Writable } from "node:stream"

/**
 * Waits until what was printed so far is taken, unless that is little. What a reader is too slow for is kept in memory, all of it, so
 * whoever prints without end waits for this again and again.
 */
export const waitForDrain = (stream: Writable = process.stdout): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (!stream.writableNeedDrain) return resume(Effect.void)
    const done = () => resume(Effect.void)
    stream.once("drain", done)
    return Effect.sync(() => void stream.off("drain", done))
  })

/** Calls back once all that was written to a stream is taken, or will never be: a process that exits before loses it. */
export const afterFlush = (stream: Writable, then: () => void): void => {
  if (stream.writableLength === 0 || stream.destroyed) then()
  else stream.write("", then)
}
