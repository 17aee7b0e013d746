import type { Schema } from "effect"
import { limitCombining } from "./combiningCharacters.ts"
import { casefold } from "./casefold.ts"

/** Most words, and most sub-words, of one value. */
export const MAX_WORDS = 256
export const MAX_SUB_WORDS = 512

/** Most characters to tokenize, before and after the Unicode form. */
const MAX_CHARACTERS = 32_768

/** Most values to read, objects and arrays included. Later ones are ignored. */
const MAX_VALUES = 8_192

/** Parts of longer texts that are tokenized, evenly spread over their whole length. */
const PARTS = 16

/** Runs of letters and digits, or single characters of scripts that do not separate words by spaces. */
const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|[\p{L}\p{M}\p{N}]+/gu

/** Marks that many people leave out: accents, and the points of Arabic and Hebrew. The marks of kana make other letters. */
const MARKS = /[[\p{Mn}&&[\p{Script=Inherited}\p{Script=Hebrew}\p{Script=Arabic}]]--[\u3099\u309A]]+/gv

/** A word that has sub-words: it has letters, and no digits, whose neighbors mean nothing. */
const HAS_SUB_WORDS = /^[\p{L}\p{M}]+$/u

const HANGUL = /\p{Script=Hangul}/u

/** Characters of a sub-word. A character of Hangul is a syllable, and a sub-word has two of them, the first one also with the word's start. */
const SUB_WORD = 3
const SUB_WORD_HANGUL = 2

/**
 * The tokens of a JSON value as signed 32-bit hashes, distinct and in ascending order:
 *
 * - Words of its strings, at most `MAX_WORDS`, without regard to case and accents. A number, boolean or null is a word too, together with
 *   the name of its field.
 * - Sub-words, at most `MAX_SUB_WORDS`: the parts of three letters of each word of three letters and more, so that other forms of a word are
 *   near it. The sub-words of a number are its sign and magnitude, so that numbers of one magnitude are near each other.
 *
 * Of more tokens, those with the lowest hashes count. So two long texts keep the same ones of their common words, from any place of the text.
 * Two words have the same hash once in 2^31 pairs, which does not matter for a ranking.
 */
export const tokenize = (value: Schema.Json): ReadonlyArray<number> => {
  const words = new Set<number>()
  const subWords = new Set<number>()
  let left = MAX_CHARACTERS
  const addText = (part: string): void => {
    const form = limitCombining(part).normalize("NFKC").slice(0, left)
    left -= form.length
    const folded = casefold(form).normalize("NFD").replaceAll(MARKS, "").normalize("NFC")
    for (const [word] of folded.matchAll(WORDS)) {
      const before = words.size
      if (words.add(wordToken(word)).size === before || !HAS_SUB_WORDS.test(word)) continue
      const [length, text] = HANGUL.test(word) ? [SUB_WORD_HANGUL, ` ${word}`] : [SUB_WORD, word]
      for (let at = 0; at + length <= text.length; at++)
        subWords.add(subWordToken(text.slice(at, at + length)))
    }
  }
  const addValue = (field: string, leaf: number | boolean | null): void => {
    words.add(wordToken(`${field}=${String(leaf)}`))
    if (typeof leaf !== "number" || leaf === 0) return
    const magnitude = Math.log2(Math.abs(leaf))
    // Two grids of powers of two, one shifted by half, and one of powers of 16: numbers near a border of one are not near that of the others.
    const buckets = [
      Math.floor(magnitude),
      Math.floor(magnitude + 0.5) + 0.5,
      `16^${Math.floor(magnitude / 4)}`
    ]
    for (const bucket of buckets) subWords.add(subWordToken(`${field}=${Math.sign(leaf)}*2^${bucket}`))
  }
  let length = 0
  for (const [, leaf] of leavesOf(value)) if (typeof leaf === "string") length += leaf.length
  const parts = partsOf(length)
  let start = 0
  for (const [field, leaf] of leavesOf(value)) {
    if (typeof leaf !== "string") addValue(field, leaf)
    else {
      const end = start + leaf.length
      for (const part of parts) {
        if (part.start < end && part.end > start)
          addText(leaf.slice(Math.max(0, part.start - start), part.end - start))
      }
      start = end
    }
  }
  return [...lowest(words, MAX_WORDS), ...lowest(subWords, MAX_SUB_WORDS)].toSorted(ascending)
}

/** Tokens as they are stored: 4 bytes each. */
export const tokensToBytes = (tokens: ReadonlyArray<number>): Uint8Array => {
  const view = new DataView(new ArrayBuffer(4 * tokens.length))
  tokens.forEach((token, index) => view.setInt32(4 * index, token))
  return new Uint8Array(view.buffer)
}

/** Reads stored tokens. */
export const tokensFromBytes = (bytes: Uint8Array): Int32Array => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const tokens = new Int32Array(bytes.byteLength / 4)
  for (let index = 0; index < tokens.length; index++) tokens[index] = view.getInt32(4 * index)
  return tokens
}

/** Whether a token is a sub-word. */
export const isSubWord = (token: number): boolean => (token & 1) === 1

/** The token of a word in its folded form. */
export const wordToken = (word: string): number => hash(word) & ~1

/** The token of a sub-word. */
export const subWordToken = (part: string): number => hash(part) | 1

const ascending = (left: number, right: number): number => left - right

const lowest = (tokens: ReadonlySet<number>, limit: number): Iterable<number> =>
  tokens.size <= limit ? tokens : [...tokens].toSorted(ascending).slice(0, limit)

/** The parts to tokenize of texts of this length together. */
const partsOf = (length: number): ReadonlyArray<{ readonly start: number; readonly end: number }> => {
  if (length <= MAX_CHARACTERS) return [{ start: 0, end: length }]
  const size = MAX_CHARACTERS / PARTS
  return Array.from({ length: PARTS }, (_, index) => {
    const start = Math.floor((index * (length - size)) / (PARTS - 1))
    return { start, end: start + size }
  })
}

/** A value that has no members, with the name of its field; the items of an array have the name of the array's field. */
type Leaf = readonly [field: string, value: string | number | boolean | null]

/** The first leaves of a value one by one, because it can have a million. */
function* leavesOf(value: Schema.Json): Generator<Leaf, undefined> {
  let left = MAX_VALUES
  const stack: Array<Iterator<readonly [field: string, value: Schema.Json], undefined>> = [
    [["", value] as const].values()
  ]
  for (let containing = stack.at(-1); containing !== undefined && left > 0; containing = stack.at(-1)) {
    const next = containing.next()
    if (next.done === true) {
      stack.pop()
      continue
    }
    const [field, current] = next.value
    left--
    if (typeof current === "object" && current !== null) stack.push(membersOf(field, current))
    else yield [field, current]
  }
}

/** The members of a value one by one. */
function* membersOf(
  field: string,
  value: Schema.JsonArray | Schema.JsonObject
): Generator<readonly [field: string, value: Schema.Json], undefined> {
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
