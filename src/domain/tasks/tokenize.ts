import type { Schema } from "effect"
import { limitCombining } from "./combiningCharacters.ts"

/** Most distinct tokens of one value. Later ones are ignored. */
export const MAX_TOKENS = 256

/** Most characters of text to tokenize, before and after the Unicode form. Each value counts as one at least. */
const MAX_CHARACTERS = 32_768

/** Runs of letters and digits, or single characters of scripts that do not separate words by spaces. */
const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|[\p{L}\p{M}\p{N}]+/gu

/**
 * The tokens of a JSON value as signed 32-bit hashes: each word of its strings, in lower case and Unicode compatibility
 * form (NFKC). A number, boolean or null is one token, together with the name of its field. Distinct, in ascending
 * order, at most `MAX_TOKENS`. Two words have the same hash once in 2^32 pairs, which does not matter for a ranking.
 */
export const tokenize = (value: Schema.Json): ReadonlyArray<number> => {
  const tokens = new Set<number>()
  let left = MAX_CHARACTERS
  const stack: Array<Iterator<Member, undefined>> = [[["", value] as const].values()]
  for (
    let containing = stack.at(-1);
    containing !== undefined && tokens.size < MAX_TOKENS && left > 0;
    containing = stack.at(-1)
  ) {
    const next = containing.next()
    if (next.done === true) {
      stack.pop()
      continue
    }
    const [field, current] = next.value
    if (typeof current === "string") {
      const text = limitCombining(current.slice(0, left)).normalize("NFKC").slice(0, left)
      left -= Math.max(1, current.length, text.length)
      for (const [word] of text.toLowerCase().matchAll(WORDS)) {
        if (tokens.add(hash(word)).size === MAX_TOKENS) break
      }
    } else {
      left--
      if (typeof current === "object" && current !== null) stack.push(membersOf(field, current))
      else tokens.add(hash(`${field}=${String(current)}`))
    }
  }
  return [...tokens].toSorted((left, right) => left - right)
}

/** A value with the name of its field; the items of an array have the name of the array's field. */
type Member = readonly [field: string, value: Schema.Json]

/** The members of a value one by one, because it can have a million, and only the first ones count. */
function* membersOf(
  field: string,
  value: Schema.JsonArray | Schema.JsonObject
): Generator<Member, undefined> {
  if (isArray(value)) {
    for (const item of value) yield [field, item]
  } else {
    for (const key of Object.keys(value)) yield [key, value[key] ?? null]
  }
}

const isArray = (value: Schema.JsonArray | Schema.JsonObject): value is Schema.JsonArray =>
  Array.isArray(value)

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
