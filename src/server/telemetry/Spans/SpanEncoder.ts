import { Effect, type Schema } from "effect"
import type { KnownSecrets } from "../../secrets/KnownSecrets.ts"
import type { SpanBuffer } from "./SpanBuffer.ts"
import { noContent } from "./Content.ts"
import type { BufferedTrace } from "./OrgBuffer.ts"
import { type Redactor, makeRedactors } from "./Redactors.ts"

/** Traces per round; a round reads the organizations' secrets once. */
const ROUND_TRACES = 1_024

/**
 * How long the event loop is occupied before other fibers run, in milliseconds. Some twenty plain traces take this
 * long, at a few hundredths of a millisecond each including compression. Content yields after each text, which is
 * searched in one go and may take milliseconds.
 */
const SLICE_MILLIS = 0.5

/** With this many waiting traces or more, the slices are longer, because traces beyond the budget would be dropped. */
const CROWDED_TRACES = 1_024
const CROWDED_SLICE_MILLIS = 2

/**
 * Runs the slow parts of a buffer (encoding and closing batches) in time slices, yielding to other fibers between them.
 * `now`: milliseconds on the monotonic clock. `encoded` is called after each slice; `sooner`: a batch is to be written
 * earlier than planned.
 */
export const makeSpanEncoder = (
  buffer: SpanBuffer,
  secrets: KnownSecrets["Service"],
  now: () => number,
  encoded: (sooner: boolean) => void
) => {
  // Time slices use the process's own clock, which is read after each trace: Effect's costs twice as much.
  let until = 0
  const hasTime = () => performance.now() < until

  /** Yields to other fibers once the time slice is used up. */
  const pause = Effect.suspend(() => {
    if (hasTime()) return Effect.void
    return Effect.map(Effect.yieldNow, () => {
      until =
        performance.now() + (buffer.unencodedCount() < CROWDED_TRACES ? SLICE_MILLIS : CROWDED_SLICE_MILLIS)
    })
  })

  const redactorsOf = makeRedactors(secrets, now, pause)

  /** Redacts the content of a trace. */
  const contentOf = Effect.fnUntraced(function* ({ recorded }: BufferedTrace, redactor: Redactor) {
    const redacted: Record<string, Schema.Json> = {}
    for (const [name, value] of Object.entries(recorded.content ?? noContent)) {
      redacted[name] = yield* redactor(value)
    }
    return redacted
  })

  const encodeRound = Effect.gen(function* () {
    let left = Math.min(ROUND_TRACES, buffer.unencodedCount())
    const redactors = yield* redactorsOf(buffer.orgsWithContent(left))
    for (
      let first = buffer.nextUnencoded();
      left > 0 && first !== undefined;
      first = buffer.nextUnencoded()
    ) {
      const redactor = first.buffer.content ? (redactors.get(first.buffer.org_id) ?? null) : null
      const content = redactor === null ? noContent : yield* contentOf(first, redactor)
      const before = buffer.writeAt()
      const slice = first.buffer.content
        ? buffer.encode(1, content, now(), hasTime)
        : buffer.encode(
            left,
            noContent,
            now(),
            () => buffer.nextUnencoded()?.buffer.content !== true && hasTime()
          )
      left -= slice.encoded
      encoded(buffer.writeAt() < before)
      for (const fault of slice.faults)
        yield* Effect.logError("Defect while building spans; they were dropped", fault)
      yield* pause
    }
  })

  return {
    /** Encodes all waiting traces. Must not run concurrently with itself. */
    encode: Effect.gen(function* () {
      while (buffer.unencodedCount() > 0) yield* encodeRound
    }),
    /** Closes the batches that have waited long enough; all if `everything`. */
    closeDue: Effect.fnUntraced(function* (everything: boolean) {
      while (!buffer.closeDue(now(), everything, hasTime)) yield* pause
    })
  }
}
