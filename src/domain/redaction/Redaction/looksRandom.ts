/**
 * Whether a token was drawn by a machine or written by somebody. Names, dates and numbers fall into few long pieces (`order`, `2026`);
 * what was drawn changes between letters, cases and digits at every other character, and its letters follow each other as in no
 * language. A stand-in for characters per BPE token, which tells the two apart on published corpora, without a tokenizer's 30 MB.
 */

/** Shortest token that is judged, and most characters that are looked at. */
const MIN_LENGTH = 16
const MAX_LENGTH = 512

/** Fewest characters a piece, on average, of what somebody wrote; fewest bits a character of what was drawn. */
const WRITTEN_PIECE = 2.6
const DRAWN_BITS = 3

/** Whether a token, one unbroken run of visible ASCII, looks drawn. */
export const looksRandom = (token: string): boolean => {
  if (token.length < MIN_LENGTH || isIdentifier(token) || isKnownFormat(token)) return false
  const text = token.slice(0, MAX_LENGTH)
  const letters = count(text, /[A-Za-z]/g)
  const digits = count(text, /[0-9]/g)
  // Letters alone, or digits alone, are names and numbers unless nothing in them reads like a language.
  if (letters < 4) return false
  if (bitsPerCharacter(text) < DRAWN_BITS) return false
  if (/^[0-9a-fA-F]+$/.test(text)) return text.length >= 20 && digits > 0
  return (letters + digits) / piecesOf(text) < (digits === 0 ? WRITTEN_PIECE - 0.3 : WRITTEN_PIECE)
}

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

/** Shannon's entropy of the characters. */
const bitsPerCharacter = (text: string): number => {
  const counts = new Map<string, number>()
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
  let bits = 0
  for (const times of counts.values()) bits -= (times / text.length) * Math.log2(times / text.length)
  return bits
}

/** Pieces that somebody would have written as one: a word, a number. What reads like no word counts by pairs. */
const piecesOf = (text: string): number => {
  let pieces = 0
  for (const [run] of text.matchAll(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+/g)) {
    const first = run.charCodeAt(0)
    if (run.length < 3 || first < 0x41) pieces++
    else pieces += Math.ceil(run.length / (readsLikeAWord(run.toLowerCase()) ? 8 : 2))
  }
  return pieces
}

/** Share of a run's neighbouring letters that some European language has next to each other often. */
const READABLE = 0.8

const readsLikeAWord = (run: string): boolean => {
  let readable = 0
  for (let index = 1; index < run.length; index++) {
    if (followers[run.charCodeAt(index - 1) - 0x61]?.includes(run.charAt(index)) === true) readable++
  }
  return readable / (run.length - 1) >= READABLE && /[aeiouy]/.test(run)
}

/** For each letter from `a` on, those that often follow it. About half of all pairs. */
const followers: ReadonlyArray<string> = [
  "bcdefghiklmnprstuvwxyz",
  "abeijlorsuy",
  "acehiklorstuy",
  "adegilmnorsuvwy",
  "abcdefghiklmnopqrstuvwxyz",
  "aefilorstu",
  "aeghilmnorstuy",
  "aeilmnortuwy",
  "abcdefgklmnopqrstuvxz",
  "aeiou",
  "aeilnorstuy",
  "abcdefgikmlopstuvy",
  "abeimnopsuy",
  "abcdefghijklnostuvwxyz",
  "abcdefghiklmnoprstuvwxyz",
  "aehiloprstuy",
  "u",
  "abcdefghiklmnopqrstuvwyz",
  "abcefhiklmnopqstuwy",
  "acehilmnorstuwyz",
  "abcdefgiklmnoprstvxz",
  "aeioyr",
  "aehilnors",
  "aceiptuy",
  "abcdeilmnoprstw",
  "aeiloyzw"
]

/** Identifiers, which are drawn and mostly keep nothing shut: UUID, ULID, one with a prefix, object id, address of an account in a chain. */
export const isIdentifier = (token: string): boolean =>
  /^\{?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?$/i.test(token) ||
  /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i.test(token) ||
  /^[a-z]{2,6}_0[0-9a-f]{11}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/.test(token) ||
  /^[0-9a-f]{24}$/.test(token) ||
  /^0x[0-9a-f]{40}$/i.test(token)

/** What says by its form that it is something else: a name in a namespace, a time, a digest, an address in a network. */
export const isKnownFormat = (token: string): boolean =>
  /^urn:/i.test(token) ||
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}T/.test(token) ||
  /^(?:sha(?:1|224|256|384|512)|md5)[-:]/i.test(token) ||
  /^(?:https?|ftp|file|mailto|data|s3|gs):/i.test(token) ||
  /^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/.test(token) ||
  /^(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}$/i.test(token)
