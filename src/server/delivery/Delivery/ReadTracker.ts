import { Effect } from "effect"

/**
 * Orders reads of the queue against recorded attempts. A read that began before an attempt was recorded still returns
 * the row's old state, which must not enter the lanes. So recorded attempts are remembered until every read that began
 * earlier has ended.
 *
 * ```
 *   read:     begin ───────────────────────────────> rows (attempt 0) ── isStale ──> ignored
 *   attempt:             recorded (attempt 0)
 * ```
 */
export interface ReadTracker {
  /** Begins a read. Call the returned function when the read has ended and its rows were accepted. */
  readonly begin: () => () => void
  /** Runs a read and passes its result to `take`, as one tracked read. */
  readonly track: <A, E>(read: Effect.Effect<A, E>, take: (result: A) => void) => Effect.Effect<void, E>
  /** Remembers that an attempt at a row was recorded. */
  readonly recorded: (seq: number, attempt: number) => void
  /** Whether a row, as it was read, is older than its recorded attempt. */
  readonly isStale: (seq: number, attempt: number) => boolean
  /** The current moment in the order of reads. */
  readonly moment: () => number
  /** Whether every read in flight began after a moment. */
  readonly allBeganAfter: (moment: number) => boolean
}

/** Starts with no read in flight. */
export const makeReadTracker = (): ReadTracker => {
  const written = new Map<number, { readonly attempt: number; readonly tick: number }>()
  /** The ticks at which the reads in flight began, oldest first. */
  const inFlight = new Set<number>()
  let tick = 0

  const begin = () => {
    const began = tick++
    inFlight.add(began)
    return () => {
      inFlight.delete(began)
      const [oldest] = inFlight
      for (const [seq, entry] of written) {
        if (oldest !== undefined && entry.tick > oldest) break
        written.delete(seq)
      }
    }
  }

  return {
    begin,
    track: (read, take) =>
      Effect.suspend(() => {
        const end = begin()
        return Effect.ensuring(Effect.map(read, take), Effect.sync(end))
      }),
    recorded: (seq, attempt) => {
      // Deleted before it is set, so that the map stays in the order of ticks.
      written.delete(seq)
      if (inFlight.size > 0) written.set(seq, { attempt, tick: tick++ })
    },
    isStale: (seq, attempt) => {
      const entry = written.get(seq)
      return entry !== undefined && entry.attempt >= attempt
    },
    moment: () => tick++,
    allBeganAfter: (moment) => {
      const [oldest] = inFlight
      return oldest === undefined || oldest > moment
    }
  }
}
