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

/** Frequencies of letters in European languages, in per mille, from `a` on. */
const frequencies = [
  82, 15, 28, 43, 127, 22, 20, 61, 70, 2, 8, 40, 24, 67, 75, 19, 1, 60, 63, 91, 28, 10, 24, 2, 20, 2
]

/** Share of letter pairs of a written text that {@link followers} lists. */
const FOLLOWING = 0.96

/** The cost of a letter after another one, or after none, in nats, under a model of written text. */
const letterCosts: ReadonlyArray<ReadonlyArray<number>> = [...followers, ""].map((common) => {
  const isCommon = (index: number): boolean => common.includes(String.fromCharCode(0x61 + index))
  const sum = (wanted: boolean): number =>
    frequencies.reduce((total, frequency, index) => total + (isCommon(index) === wanted ? frequency : 0), 0)
  return frequencies.map((frequency, index) => {
    const share = common === "" ? 1 : isCommon(index) ? FOLLOWING : 1 - FOLLOWING
    return -Math.log((share * frequency) / sum(common !== "" && isCommon(index)))
  })
})

/** Classes of characters: lower case, upper case, digit, sign. */
const classOf = (code: number): number =>
  code >= 0x61 && code <= 0x7a ? 0 : code >= 0x41 && code <= 0x5a ? 1 : code >= 0x30 && code <= 0x39 ? 2 : 3

/** The cost of a class after another one in written text; the last two rows: after several capitals, and at the start. */
const classCosts = [
  [0.87, 0.03, 0.03, 0.07],
  [0.4, 0.48, 0.04, 0.08],
  [0.05, 0.05, 0.8, 0.1],
  [0.5, 0.2, 0.2, 0.1],
  [0.03, 0.87, 0.03, 0.07],
  [0.55, 0.25, 0.15, 0.05]
].map((shares) => shares.map((share) => -Math.log(share)))

/** The cost of a digit, of a sign that joins words, and of any other. */
const DIGIT_COST = Math.log(10)
const JOINT_COST = Math.log(4)
const SIGN_COST = Math.log(120)

/** The negative logarithm of a text's probability under a model of written text: words, names and numbers. */
const costAsText = (text: string): number => {
  let cost = 0
  let previous = 5
  let letter = 26
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    const next = classOf(code)
    cost += classCosts[previous]?.[next] ?? 0
    const current = next < 2 ? (code & 0x1f) - 1 : 26
    cost +=
      next < 2
        ? (letterCosts[letter]?.[current] ?? 0)
        : next === 2
          ? DIGIT_COST
          : code === 0x2d || code === 0x2e || code === 0x5f
            ? JOINT_COST
            : SIGN_COST
    previous = next === 1 && (previous === 1 || previous === 4) ? 4 : next
    letter = current
  }
  return cost
}

/** Minimum share of runs of digits in a token that keeps to one case and is drawn: a written one has at most a number at its end. */
const MIN_DIGIT_RUNS = 0.06

/** The nats of a character of a token that keeps to a part of its kind's alphabet: hexadecimal digits, or digits and one case. */
const natsOf = (part: string, nats: number): number => {
  if (/^[0-9a-f]*$/i.test(part)) return Math.min(Math.log(16), nats)
  const isOneCase = /^[^a-z]*$|^[^A-Z]*$/.test(part) && count(part, /[0-9]+/g) > MIN_DIGIT_RUNS * part.length
  return isOneCase ? Math.min(Math.log(38), nats) : nats
}

/**
 * How much more likely the parts of a token are drawn from their alphabets than written, as a logarithm: the likelihood ratio of both. Of
 * values that are drawn, practically none has a negative one: it is below `-x` with a probability of at most `e^-x` (Markov's inequality).
 */
export const randomness = (parts: ReadonlyArray<string | undefined>, nats: ReadonlyArray<number>): number => {
  let ratio = 0
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index]
    if (part !== undefined) ratio += costAsText(part) - part.length * natsOf(part, nats[index] ?? 0)
  }
  return ratio
}

/** The randomness below which a short token is a written one: the shorter, the more random values differ. */
const TOLERANCE = 20

/**
 * Whether the parts of a token of a vendor's form are drawn from their alphabets rather than written. `evidence` speaks for a token, in nats:
 * that of its prefix.
 */
export const isDrawn = (
  parts: ReadonlyArray<string | undefined>,
  nats: ReadonlyArray<number>,
  evidence = 0
): boolean => {
  const length = parts.reduce((total, part) => total + (part?.length ?? 0), 0)
  return randomness(parts, nats) + evidence > Math.min(0, length / 2 - TOLERANCE)
}

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
  /^(?:https?|ftp|file|mailto|data|s3|gs|vault):/i.test(token) ||
  // The version of a model or an interface: `gpt-4o-2024-08-06`.
  /^[a-z][a-z0-9.-]{1,40}-20[0-9]{2}-?[01][0-9]-?[0-3][0-9]$/.test(token) ||
  /^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/.test(token) ||
  /^(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}$/i.test(token)
