import { isPlaceholder } from "./isPlaceholder.ts"
import { isKnownFormat, looksRandom } from "./looksRandom.ts"

export const hasDigit = (text: string): boolean => /[0-9]/.test(text)
export const hasLetter = (text: string): boolean => /[A-Za-z]/.test(text)
/** Whether a text has punctuation that is common in passwords and absent from words. */
export const hasSign = (text: string): boolean => /[!@#$%^*?~+]/.test(text)

/** Minimum length of a credential that does not look random. */
const MIN_OPAQUE = 10

/** Whether a value is a credential rather than a word: random, or long enough with both letters and digits. */
export const isOpaque = (value: string): boolean =>
  !isPlaceholder(value) &&
  !isKnownFormat(value) &&
  (looksRandom(value) ||
    (value.length >= MIN_OPAQUE && hasDigit(value) && hasLetter(value) && !isWordLike(value)))

/** A word with an optional number, compound words (`Uint8Array`), or a number. */
const PIECE =
  "(?:[A-Z]{0,3}[a-z]+[A-Z]?[0-9]{0,4}(?:[A-Z][a-z]{2,}[0-9]{0,4})*|[a-z]+[24][a-z]+|[A-Z]+[0-9]{0,4}|[0-9]+)"

const written = new RegExp(`^(?:#|~?/|\\.{1,2}/)?${PIECE}(?:[-_./:]${PIECE})*/?$`)

/** Whether a text is words and numbers joined by punctuation (`order-4411`, `v2.0`, `MSc_2026`, `/usr/lib2`). */
export const isWordLike = (text: string): boolean => written.test(text)

/** Whether a text is an absolute or relative path of words. */
export const isPath = (text: string): boolean =>
  /^(?:~?\/|\.{1,2}\/)/.test(text) &&
  isWordLike(text.replaceAll(/\/:|[{}*]/g, "/").replaceAll(/\/{2,}/g, "/"))

/** Whether a text is code that yields a value: a call or a subscript. Credentials do not contain these signs. */
export const isExpression = (text: string): boolean => /[[(]$|[\w)][([]/.test(text)
