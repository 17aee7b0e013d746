/**
 * Length of a text from which its search is interrupted, in UTF-16 code units. A shorter one takes a few milliseconds at
 * most, and interruptions would double the cost of a text of a few words.
 */
const LONG_TEXT = 4 * 1024

/** Whether the search of a text is interrupted between its parts. */
export const hasSteps = (text: string): boolean => text.length > LONG_TEXT

/** Matches between two places where a search is interrupted: a fraction of a millisecond. */
export const MATCHES_PER_STEP = 64
