import type { Schema } from "effect"

/** The most distinct tokens of one value: the first ones, as they stand in it. */
export const MAX_TOKENS = 256

/** The most characters of text that are read for tokens. */
const MAX_CHARACTERS = 32_768

/** Letters and digits in a row, or single characters of scripts that put no space between words. */
const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|[\p{L}\p{M}\p{N}]+/gu

/**
 * The tokens of a JSON value, as numbers of 32 bits with a sign: each word of its texts, in lower case and compatibility form, and
 * each number, truth value and null together with the name of its field. Distinct, in rising order, at most `MAX_TOKENS`. Two words
 * share a number once in four milliards, which a ranking can bear.
 */
export const tokenize = (value: Schema.Json): ReadonlyArray<number> => {
  const tokens = new Set<number>()
  let left = MAX_CHARACTERS
  const waiting: Array<readonly [field: string, value: Schema.Json]> = [["", value]]
  for (
    let next = waiting.pop();
    next !== undefined && tokens.size < MAX_TOKENS && left > 0;
    next = waiting.pop()
  ) {
    const [field, current] = next
    if (typeof current === "string") {
      const text = current.slice(0, left)
      left -= text.length
      for (const [word] of text.normalize("NFKC").toLowerCase().matchAll(WORDS)) {
        if (tokens.add(hash(word)).size === MAX_TOKENS) break
      }
    } else if (typeof current === "object" && current !== null) {
      const inner = Object.entries(current)
      // Taken from the end, so that they come in their order.
      for (const [key, member] of inner.toReversed())
        waiting.push([Array.isArray(current) ? field : key, member])
    } else {
      left--
      tokens.add(hash(`${field}=${String(current)}`))
    }
  }
  return [...tokens].toSorted((left, right) => left - right)
}

/** FNV-1a over UTF-16 code units, then the finalizer of MurmurHash3, so that its bits are even. */
export const hash = (text: string): number => {
  let h = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    h = Math.imul(h ^ text.charCodeAt(index), 0x01000193)
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) | 0
}
