import type { Schema } from "effect"

/** Most distinct tokens of one value. Later ones are ignored. */
export const MAX_TOKENS = 256

/** Most characters of text to tokenize. */
const MAX_CHARACTERS = 32_768

/** Runs of letters and digits, or single characters of scripts that do not separate words by spaces. */
const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|[\p{L}\p{M}\p{N}]+/gu

/**
 * The tokens of a JSON value as signed 32-bit hashes: each word of its strings, in lower case and Unicode compatibility
 * form (NFKC), and each number, boolean and null together with the name of its field. Distinct, in ascending order, at
 * most `MAX_TOKENS`. Two words have the same hash once in 2^32 pairs, which does not matter for a ranking.
 */
export const tokenize = (value: Schema.Json): ReadonlyArray<number> => {
  const tokens = new Set<number>()
  let left = MAX_CHARACTERS
  const stack: Array<readonly [field: string, value: Schema.Json]> = [["", value]]
  for (
    let next = stack.pop();
    next !== undefined && tokens.size < MAX_TOKENS && left > 0;
    next = stack.pop()
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
      // The stack is popped from its end, so members are pushed in reverse order.
      for (const [key, member] of inner.toReversed())
        stack.push([Array.isArray(current) ? field : key, member])
    } else {
      left--
      tokens.add(hash(`${field}=${String(current)}`))
    }
  }
  return [...tokens].toSorted((left, right) => left - right)
}

/** FNV-1a over UTF-16 code units, then the finalizer of MurmurHash3, which distributes the bits evenly. */
export const hash = (text: string): number => {
  let h = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    h = Math.imul(h ^ text.charCodeAt(index), 0x01000193)
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) | 0
}
