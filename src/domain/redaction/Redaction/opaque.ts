import { isPlaceholder } from "./isPlaceholder.ts"
import { isKnownFormat, looksRandom } from "./looksRandom.ts"

export const hasDigit = (text: string): boolean => /[0-9]/.test(text)
export const hasLetter = (text: string): boolean => /[A-Za-z]/.test(text)
/** Signs that passwords have and words do not. */
export const hasSign = (text: string): boolean => /[!@#$%^*?~+]/.test(text)

/** Shortest credential that does not look drawn. */
const MIN_OPAQUE = 10

/** A credential rather than a word: drawn, or long enough and of more than letters. */
export const isOpaque = (value: string): boolean =>
  !isPlaceholder(value) &&
  !isKnownFormat(value) &&
  (looksRandom(value) ||
    (value.length >= MIN_OPAQUE && hasDigit(value) && hasLetter(value) && !isWordLike(value)))

/** A word with a number behind it, words put together (`Uint8Array`), or a number. */
const PIECE = "(?:[A-Z]{0,3}[a-z]+[A-Z]?[0-9]{0,4}(?:[A-Z][a-z]{2,}[0-9]{0,4})*|[A-Z]+[0-9]{0,4}|[0-9]+)"

const written = new RegExp(`^(?:#|~?/|\\.{1,2}/)?${PIECE}(?:[-_./:]${PIECE})*/?$`)

/** Words and numbers with marks between them (`order-4411`, `v2.0`, `MSc_2026`, `/usr/lib2`), as people name things. */
export const isWordLike = (text: string): boolean => written.test(text)

/** A path from a root or from here, of words. */
export const isPath = (text: string): boolean => /^(?:~?\/|\.{1,2}\/)/.test(text) && isWordLike(text)

/** Code whose answer is a value, rather than one: a call, or a list's item. No credential has such a sign within. */
export const isExpression = (text: string): boolean => /[[(]$|[\w)][([]/.test(text)
