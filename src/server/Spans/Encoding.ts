import { Effect } from "effect"
import type { KnownSecrets } from "../KnownSecrets.ts"
import type { Outbox, SpanBuffer } from "./Buffer.ts"
import { makeRedactors } from "./Redactors.ts"

/** Traces for which it is asked once what must not go out. */
const STRETCH = 1_024

/**
 * How long the event loop is held until others have their turn: of plain traces some twenty, each of a few hundredths of a millisecond
 * with its share of the compression. One with content may take milliseconds, and has a turn of its own then.
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
  const redactorsOf = makeRedactors(secrets, now)

  /** Whether a slice that begins now goes on. */
  const timeFor = (millis: number): (() => boolean) => {
    const until = now() + millis
    return () => now() < until
  }

  const stretch = Effect.gen(function* () {
    let left = Math.min(STRETCH, buffer.unencoded())
    const redactors = yield* redactorsOf(buffer.withContent(left))
    const redactor = ({ content, org_id }: Outbox) => (content ? (redactors.get(org_id) ?? null) : null)
    while (left > 0) {
      const before = buffer.writeAt()
      const hasTime = timeFor(buffer.unencoded() < CROWD ? SLICE_MILLIS : CROWDED_SLICE_MILLIS)
      const slice = buffer.encode(left, redactor, now(), hasTime)
      left -= slice.encoded
      encoded(buffer.writeAt() < before)
      for (const fault of slice.faults) yield* Effect.logError("A span could not be made", fault)
      yield* Effect.yieldNow
    }
  })

  return {
    /** Encodes all that waits. One at a time. */
    encode: Effect.gen(function* () {
      while (buffer.unencoded() > 0) yield* stretch
    }),
    /** Closes the batches that have waited long enough; all of them where `everything`. */
    seal: Effect.fnUntraced(function* (everything: boolean) {
      while (!buffer.seal(now(), everything, timeFor(SLICE_MILLIS))) yield* Effect.yieldNow
    })
  }
}
