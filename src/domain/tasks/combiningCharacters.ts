/**
 * Combining characters in a row that are normalized, as in the Stream-Safe Text Format of Unicode (UAX #15): sorting them takes a time that
 * grows with the square of their number. No language needs more. The two halfwidth marks become combining characters.
 */
const MAX_COMBINING = 30
const COMBINING = /[\p{M}\uFF9E\uFF9F]+/gu

/** Whether a text has too many combining characters in a row to be normalized quickly. */
export const hasManyCombining = (text: string): boolean => {
  for (const [run] of text.matchAll(COMBINING)) {
    if (run.length > MAX_COMBINING) return true
  }
  return false
}

/** The text, without combining characters in a row beyond the number that can be normalized. */
export const limitCombining = (text: string): string =>
  hasManyCombining(text) ? text.replaceAll(COMBINING, (run) => run.slice(0, MAX_COMBINING)) : text
