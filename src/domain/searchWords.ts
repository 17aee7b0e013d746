/** The words of texts that people search for, the same for stored and for typed text. */

/** The most words of one text, and the most characters of a word. The rest cannot be found. */
export const MAX_WORDS = 256
export const MAX_WORD_LENGTH = 64

/** Escapes of JSON texts, such as the two characters of a line break. */
const JSON_ESCAPE = /\\(?:u[0-9a-fA-F]{4}|.)/gu

/** Anything between words. Marks belong to the letters before them. */
const SEPARATORS = /[^\p{L}\p{N}\p{M}]+/u

/**
 * The distinct words of a text, in order: runs of letters and digits, in lower case and in compatibility form, so that `SUP-9001` has the words
 * `sup` and `9001`. `json`: the text is JSON, possibly cut off.
 */
export const searchWords = (
  text: string,
  options: { readonly json?: boolean } = {}
): ReadonlyArray<string> => {
  const words = new Set<string>()
  const plain = options.json === true ? text.replaceAll(JSON_ESCAPE, " ") : text
  for (const word of plain.toWellFormed().normalize("NFKC").toLowerCase().split(SEPARATORS)) {
    if (word === "") continue
    words.add([...word].slice(0, MAX_WORD_LENGTH).join(""))
    if (words.size === MAX_WORDS) break
  }
  return [...words]
}
