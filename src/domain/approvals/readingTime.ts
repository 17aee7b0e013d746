/**
 * The fastest silent reading, in characters per second: skimming reaches about 700 words of 6 characters per minute (Rayner and others, "So
 * Much to Read, So Little Time", Psychological Science in the Public Interest 17, 2016). No person reads faster and understands.
 */
const CHARACTERS_PER_SECOND = 70

/** To see a request and to press a button. */
const BASE_SECONDS = 1

/** Of long arguments, people read the parts that matter. */
const MAX_SECONDS = 30

/** How much a person can have read before deciding: several requests are often read first and then decided together. */
const MAX_CREDIT_SECONDS = 600

/** The least time that a person needs to read a number of characters and to decide, in seconds. */
export const leastReadingSeconds = (characters: number): number =>
  Math.min(MAX_SECONDS, BASE_SECONDS + characters / CHARACTERS_PER_SECOND)

/** When a request was made and decided, in epoch milliseconds, by whom, and how long its content is. */
export interface TimedDecision {
  readonly requested_at: number
  readonly decided_at: number
  readonly decided_by: string
  readonly characters: number
}

/**
 * Selects the decisions whose content can have been read. A decision counts only if
 *
 * - between the request and the decision there was time to read it, and
 * - the person had time for it besides the other decisions that count: reading time accumulates while time passes, up to ten minutes, and
 *   each decision that counts uses up its own.
 *
 * So of a hundred requests that are approved in one go after a minute, as many count as can be read in ten minutes. Of the next hundred,
 * after another minute, as many count as can be read in that minute.
 */
export const selectRead = <D extends TimedDecision>(decisions: ReadonlyArray<D>): ReadonlySet<D> => {
  const read = new Set<D>()
  const readers = new Map<string, { credit: number; at: number }>()
  for (const decision of decisions.toSorted((one, other) => one.decided_at - other.decided_at)) {
    const { characters, decided_at, decided_by, requested_at } = decision
    const reader = readers.get(decided_by) ?? { credit: MAX_CREDIT_SECONDS, at: decided_at }
    readers.set(decided_by, reader)
    reader.credit = Math.min(MAX_CREDIT_SECONDS, reader.credit + (decided_at - reader.at) / 1_000)
    reader.at = decided_at
    const needed = leastReadingSeconds(characters)
    if ((decided_at - requested_at) / 1_000 < needed || reader.credit < needed) continue
    reader.credit -= needed
    read.add(decision)
  }
  return read
}
