import { Effect } from "effect"

/**
 * Keeps reads of the queue and writes of results apart: a read that began before an attempt was written down still shows the row as it
 * was, and must not bring it back. What was written is remembered until every read that began before has ended.
 */
export interface Reads {
  /** A read begins; what it answers with is called when it has ended, and what it found was taken in. */
  readonly begin: () => () => void
  /** Runs a read and takes in what it found. */
  readonly reading: <A, E>(read: Effect.Effect<A, E>, take: (result: A) => void) => Effect.Effect<void, E>
  /** An attempt at a row was written down. */
  readonly finished: (seq: number, attempt: number) => void
  /** Whether a row, as it was read, is from before its attempt was written down. */
  readonly isStale: (seq: number, attempt: number) => boolean
  /** This moment, in the order of reads. */
  readonly moment: () => number
  /** Whether every read under way began after a moment. */
  readonly allBeganAfter: (moment: number) => boolean
}

/** None under way. */
export const makeReads = (): Reads => {
  const written = new Map<number, { readonly attempt: number; readonly tick: number }>()
  /** The ticks at which the reads under way began; oldest first. */
  const begun = new Set<number>()
  let tick = 0

  const begin = () => {
    const began = tick++
    begun.add(began)
    return () => {
      begun.delete(began)
      const [oldest] = begun
      for (const [seq, entry] of written) {
        if (oldest !== undefined && entry.tick > oldest) break
        written.delete(seq)
      }
    }
  }

  return {
    begin,
    reading: (read, take) =>
      Effect.suspend(() => {
        const end = begin()
        return Effect.ensuring(Effect.map(read, take), Effect.sync(end))
      }),
    finished: (seq, attempt) => {
      // Set anew, so that the order of the map stays that of the ticks.
      written.delete(seq)
      if (begun.size > 0) written.set(seq, { attempt, tick: tick++ })
    },
    isStale: (seq, attempt) => {
      const entry = written.get(seq)
      return entry !== undefined && entry.attempt >= attempt
    },
    moment: () => tick++,
    allBeganAfter: (moment) => {
      const [oldest] = begun
      return oldest === undefined || oldest > moment
    }
  }
}
