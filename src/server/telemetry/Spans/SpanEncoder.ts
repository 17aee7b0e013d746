import { Effect, type Schema } from "effect"
import type { KnownSecrets } from "../../secrets/KnownSecrets.ts"
import type { SpanBuffer } from "./SpanBuffer.ts"
import { noContent } from "./Content.ts"
import type { BufferedTrace } from "./OrgBuffer.ts"
import { type Redactor, makeRedactors } from "./Redactors.ts"

/** Traces for which it is asked once what must not go out. */
const ROUND_TRACES = 1_024

/**
 * How long the event loop is held until others have their turn: of plain traces some twenty, each of a few hundredths of a millisecond
 * with its share of the compression; of content a text, which is searched in one go and may take milliseconds.
 */
const SLICE_MILLIS = 0.5

/** Where so many traces wait that some will soon find no room: longer. Past that they are dropped, and counted. */
const CROWDED_TRACES = 1_024
const CROWDED_SLICE_MILLIS = 2

/**
 * What takes time of a buffer's work, in slices with turns for others between them. `now`: milliseconds on the monotonic clock; `encoded`
 * is told after each slice whether a batch is to be written sooner than was known.
 */
export const makeSpanEncoder = (
  buffer: SpanBuffer,
  secrets: KnownSecrets["Service"],
  now: () => number,
  encoded: (sooner: boolean) => void
) => {
  let until = 0
  const hasTime = () => now() < until

  /** Lets others have their turn, where it is time. */
  const pause = Effect.suspend(() => {
    if (hasTime()) return Effect.void
    return Effect.map(Effect.yieldNow, () => {
      until = now() + (buffer.unencodedCount() < CROWDED_TRACES ? SLICE_MILLIS : CROWDED_SLICE_MILLIS)
    })
  })

  const redactorsOf = makeRedactors(secrets, now, pause)

  /** What goes out of a trace's content. */
  const contentOf = Effect.fnUntraced(function* ({ recorded }: BufferedTrace, clean: Redactor) {
    const cleaned: Record<string, Schema.Json> = {}
    for (const [name, value] of Object.entries(recorded.content ?? noContent)) {
      cleaned[name] = yield* clean(value)
    }
    return cleaned
  })

  const encodeRound = Effect.gen(function* () {
    let left = Math.min(ROUND_TRACES, buffer.unencodedCount())
    const redactors = yield* redactorsOf(buffer.orgsWithContent(left))
    for (
      let first = buffer.nextUnencoded();
      left > 0 && first !== undefined;
      first = buffer.nextUnencoded()
    ) {
      const clean = first.buffer.content ? (redactors.get(first.buffer.org_id) ?? null) : null
      const content = clean === null ? noContent : yield* contentOf(first, clean)
      const before = buffer.writeAt()
      const slice = first.buffer.content
        ? buffer.encode(1, content, now(), hasTime)
        : buffer.encode(
            left,
            noContent,
            now(),
            () => hasTime() && buffer.nextUnencoded()?.buffer.content !== true
          )
      left -= slice.encoded
      encoded(buffer.writeAt() < before)
      for (const fault of slice.faults) yield* Effect.logError("A span could not be made", fault)
      yield* pause
    }
  })

  return {
    /** Encodes all that waits. One at a time. */
    encode: Effect.gen(function* () {
      while (buffer.unencodedCount() > 0) yield* encodeRound
    }),
    /** Closes the batches that have waited long enough; all of them where `everything`. */
    closeDue: Effect.fnUntraced(function* (everything: boolean) {
      while (!buffer.closeDue(now(), everything, hasTime)) yield* pause
    })
  }
}
