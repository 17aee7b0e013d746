/**
 * Distinguishes random tokens from words. Names, dates and numbers consist of few long pieces (`order`, `2026`); a random token switches
 * between letters, cases and digits at every other character, and its letter pairs fit no language. An approximation of characters per BPE
 * token, which separates the two on published corpora, without a tokenizer of 30 MB.
 */

/** Minimum length of a random token, and maximum number of inspected characters. */
const MIN_LENGTH = 16
const MAX_LENGTH = 512

/** Minimum average characters per piece of written text, and minimum bits per character of random text. */
const MIN_PIECE_LENGTH = 2.6
const MIN_RANDOM_BITS = 3

/** Whether a token, an unbroken run of visible ASCII, looks random. */
export const looksRandom = (token: string): boolean => {
  if (token.length < MIN_LENGTH || isIdentifier(token) || isKnownFormat(token)) return false
  const text = token.slice(0, MAX_LENGTH)
  const letters = count(text, /[A-Za-z]/g)
  const digits = count(text, /[0-9]/g)
  // Letters alone or digits alone are names and numbers, unless no part reads like a language.
  if (letters < 4) return false
  if (bitsPerCharacter(text) < MIN_RANDOM_BITS) return false
  if (/^[0-9a-fA-F]+$/.test(text)) return text.length >= 20 && digits > 0
  return (letters + digits) / piecesOf(text) < (digits === 0 ? MIN_PIECE_LENGTH - 0.3 : MIN_PIECE_LENGTH)
}

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

/** The Shannon entropy of the characters. */
const bitsPerCharacter = (text: string): number => {
  const counts = new Map<string, number>()
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
  let bits = 0
  for (const times of counts.values()) bits -= (times / text.length) * Math.log2(times / text.length)
  return bits
}

/** Counts pieces: words and numbers. A run that does not read like a word counts as pairs of letters. */
const piecesOf = (text: string): number => {
  let pieces = 0
  for (const [run] of text.matchAll(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+/g)) {
    const first = run.charCodeAt(0)
    if (run.length < 3 || first < 0x41) pieces++
    else pieces += Math.ceil(run.length / (readsLikeAWord(run.toLowerCase()) ? 8 : 2))
  }
  return pieces
}

/** Minimum share of letter pairs that are common in some European language. */
const READABLE = 0.8

const readsLikeAWord = (run: string): boolean => {
  let readable = 0
  for (let index = 1; index < run.length; index++) {
    if (followers[run.charCodeAt(index - 1) - 0x61]?.includes(run.charAt(index)) === true) readable++
  }
  return readable / (run.length - 1) >= READABLE && /[aeiouy]/.test(run)
}

/** For each letter from `a` on, the letters that often follow it: about half of all pairs. */
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

export const isUuid = (token: string): boolean =>
  /^\{?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?$/i.test(token)

/** Whether a token is an identifier, which is random but rarely secret: UUID, ULID, prefixed id, object id, blockchain address. */
export const isIdentifier = (token: string): boolean =>
  isUuid(token) ||
  /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i.test(token) ||
  /^[a-z]{2,6}_0[0-9a-f]{11}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/.test(token) ||
  /^[0-9a-f]{24}$/.test(token) ||
  /^0x[0-9a-f]{40}$/i.test(token)

/** Whether a token has another well-known format: a URN, a timestamp, a digest, a URL, an email or MAC address. */
export const isKnownFormat = (token: string): boolean =>
  /^(?:urn|arn):/i.test(token) ||
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}T/.test(token) ||
  /^(?:sha(?:1|224|256|384|512)|md5)[-:]/i.test(token) ||
  /^(?:https?|ftp|file|mailto|data|s3|gs):/i.test(token) ||
  /^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/.test(token) ||
  /^(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}$/i.test(token)
