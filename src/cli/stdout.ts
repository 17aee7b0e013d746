import { Effect } from "effect"
import type { Writable } from "node:stream"

/**
 * Waits until the output buffer has drained, if it is full. Node buffers without limit for a slow reader, so a command with unbounded
 * output awaits this repeatedly.
 */
export const waitForDrain = (stream: Writable = process.stdout): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (!stream.writableNeedDrain) return resume(Effect.void)
    const done = () => resume(Effect.void)
    stream.once("drain", done)
    return Effect.sync(() => void stream.off("drain", done))
  })

/** Calls back when everything written to a stream has been flushed or the stream is destroyed: an earlier exit would lose output. */
export const afterFlush = (stream: Writable, then: () => void): void => {
  if (stream.writableLength === 0 || stream.destroyed) then()
  else stream.write("", then)
}
