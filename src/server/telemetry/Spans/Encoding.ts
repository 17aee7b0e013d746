import { Effect, type Schema } from "effect"
import type { KnownSecrets } from "../../secrets/KnownSecrets.ts"
import type { SpanBuffer } from "./Buffer.ts"
import { noContent } from "./Content.ts"
import type { Entry } from "./OrgBuffer.ts"
import { type Clean, makeRedactors } from "./Redactors.ts"

/** Traces for which it is asked once what must not go out. */
const STRETCH = 1_024

/**
 * How long the event loop is held until others have their turn: of plain traces some twenty, each of a few hundredths of a millisecond
 * with its share of the compression; of content a text, which is searched in one go and may take milliseconds.
 */
const SLICE_MILLIS = 0.5

/** Where so many traces wait that some will soon find no room: longer. Past that they are dropped, and counted. */
const CROWD = 1_024
const CROWDED_SLICE_MILLIS = 2

/**
 * What takes time of a buffer's work, in slices with turns for others between them. `now`: milliseconds on the monotonic clock; `encoded`
 * is told after each slice whether a batch is to be written sooner than was known.
 */
export const makeEncoding = (
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
      until = now() + (buffer.unencoded() < CROWD ? SLICE_MILLIS : CROWDED_SLICE_MILLIS)
    })
  })

  const redactorsOf = makeRedactors(secrets, now, pause)

  /** What goes out of a trace's content. */
  const contentOf = Effect.fnUntraced(function* ({ recorded }: Entry, clean: Clean) {
    const cleaned: Record<string, Schema.Json> = {}
    for (const [name, value] of Object.entries(recorded.content ?? noContent)) {
      cleaned[name] = yield* clean(value)
    }
    return cleaned
  })

  const stretch = Effect.gen(function* () {
    let left = Math.min(STRETCH, buffer.unencoded())
    const redactors = yield* redactorsOf(buffer.withContent(left))
    for (let first = buffer.first(); left > 0 && first !== undefined; first = buffer.first()) {
      const clean = first.outbox.content ? (redactors.get(first.outbox.org_id) ?? null) : null
      const content = clean === null ? noContent : yield* contentOf(first, clean)
      const before = buffer.writeAt()
      const slice = first.outbox.content
        ? buffer.encode(1, content, now(), hasTime)
        : buffer.encode(left, noContent, now(), () => hasTime() && buffer.first()?.outbox.content !== true)
      left -= slice.encoded
      encoded(buffer.writeAt() < before)
      for (const fault of slice.faults) yield* Effect.logError("A span could not be made", fault)
      yield* pause
    }
  })

  return {
    /** Encodes all that waits. One at a time. */
    encode: Effect.gen(function* () {
      while (buffer.unencoded() > 0) yield* stretch
    }),
    /** Closes the batches that have waited long enough; all of them where `everything`. */
    seal: Effect.fnUntraced(function* (everything: boolean) {
      while (!buffer.seal(now(), everything, hasTime)) yield* pause
    })
  }
}
