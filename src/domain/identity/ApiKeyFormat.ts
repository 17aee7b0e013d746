import { createHash, timingSafeEqual } from "node:crypto"
import { crc32 } from "node:zlib"
import { Effect, Redacted, Result, Schema } from "effect"
import { SecureRandom } from "effect/crypto"

/**
 * The text of an API key: `csk_<16 base62 public id>_<43 base62 secret><6 base62 checksum>`, 70 characters of
 * `0-9A-Za-z` and `_`, so that a double click selects it whole. The secret holds 256 random bits, which is why one
 * SHA-256 is enough to store it. The checksum is the CRC-32 (as in zlib) of all that stands before it, most
 * significant digit first: it refuses what was mistyped without asking the store, and lets a scanner tell a key
 * from what merely looks like one.
 */
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const BASE = ALPHABET.length

const PREFIX = "csk_"
const PUBLIC_ID_LENGTH = 16
const SECRET_LENGTH = 43
const CHECKSUM_LENGTH = 6
const CHECKED_LENGTH = PREFIX.length + PUBLIC_ID_LENGTH + 1 + SECRET_LENGTH

/** Characters of every key. */
const KEY_LENGTH = CHECKED_LENGTH + CHECKSUM_LENGTH

/** The part of a key that names it: 16 base62 digits, stored and shown in the clear. */
export const PublicId = Schema.String.check(
  Schema.isPattern(/^[0-9A-Za-z]{16}$/, { expected: "16 characters of 0-9, A-Z, a-z" })
).pipe(Schema.brand("ApiKeyPublicId"))
export type PublicId = typeof PublicId.Type

/** A key whose form and checksum are right. Whether it is known, and to whom it belongs, only the store can say. */
export interface ParsedApiKey {
  readonly publicId: PublicId
  readonly key: Redacted.Redacted<string>
}

/** Why a text is no key: not of the form, or of the form with a checksum that does not match (a typo). */
export type ApiKeyParseError = "malformed" | "checksum"

/**
 * The CRC-32 (as in zlib) of a text in base62, most significant digit first, padded with `0` to six digits. GitHub and npm end their
 * tokens with the same.
 */
export const base62Checksum = (checked: string): string => {
  let rest = crc32(checked)
  let digits = ""
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = ALPHABET.charAt(rest % BASE) + digits
    rest = Math.floor(rest / BASE)
  }
  return digits
}

const whole = /^csk_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/

const publicIdOf = (key: string): PublicId =>
  PublicId.make(key.slice(PREFIX.length, PREFIX.length + PUBLIC_ID_LENGTH), { disableChecks: true })

const checksumFits = (key: string): boolean =>
  key.slice(CHECKED_LENGTH) === base62Checksum(key.slice(0, CHECKED_LENGTH))

/**
 * Reads a key. Every text with one wrong character, or two neighbours swapped before the checksum, is refused: a CRC-32
 * finds each burst of up to 32 bits. Of texts that merely have the form, one in 62^6 (5.7 * 10^10) passes.
 */
export const parseApiKey = (text: string): Result.Result<ParsedApiKey, ApiKeyParseError> => {
  // The length first: a regular expression has no business with a megabyte of header.
  if (text.length !== KEY_LENGTH || !whole.test(text)) return Result.fail("malformed")
  if (!checksumFits(text)) return Result.fail("checksum")
  return Result.succeed({ publicId: publicIdOf(text), key: Redacted.make(text, { label: "ApiKey" }) })
}

/** What is stored of a key beside its public id: the SHA-256 of its whole text, 32 bytes. */
export const apiKeyDigest = (key: Redacted.Redacted<string>): Uint8Array =>
  createHash("sha256").update(Redacted.value(key), "latin1").digest()

/** Whether two digests are the same, in a time that does not tell where they differ. */
export const digestsEqual = (left: Uint8Array, right: Uint8Array): boolean =>
  left.length === right.length && timingSafeEqual(left, right)

/** A key's text up to its secret (`csk_<public id>_`): enough to tell keys apart, of no use to anyone. */
export const apiKeyHint = (publicId: PublicId): string => `${PREFIX}${publicId}_`

/** Where in a text a key stands: `start` inclusive, `end` exclusive, in UTF-16 code units. */
export interface ApiKeyOccurrence {
  readonly start: number
  readonly end: number
  readonly publicId: PublicId
}

/**
 * Finds every key in a text, wherever it stands. Linear in the text's length: a candidate is of fixed length, and the
 * search goes on past the `csk_` of one that fails, since the end of a cut key may run into the start of a whole one.
 */
export const findApiKeys = (text: string): ReadonlyArray<ApiKeyOccurrence> => {
  const candidate = /csk_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}/g
  const found: Array<ApiKeyOccurrence> = []
  for (let match = candidate.exec(text); match !== null; match = candidate.exec(text)) {
    const key = match[0]
    if (checksumFits(key)) {
      found.push({ start: match.index, end: match.index + KEY_LENGTH, publicId: publicIdOf(key) })
    } else {
      candidate.lastIndex = match.index + PREFIX.length
    }
  }
  return found
}

/** Reads of the random source before it is held to be broken. One read in 10^9 needs a third. */
const MAX_READS = 16

/** The largest multiple of 62 that a byte can count to: bytes from here on are thrown away, or `0` to `7` would be likelier. */
const UNBIASED = 256 - (256 % BASE)

const randomDigits = (length: number, randomBytes: (size: number) => Uint8Array): string => {
  let digits = ""
  for (let read = 0; read < MAX_READS; read++) {
    for (const byte of randomBytes(length * 2)) {
      if (byte >= UNBIASED) continue
      digits += ALPHABET.charAt(byte % BASE)
      if (digits.length === length) return digits
    }
  }
  throw new Error("The random source yields no usable bytes")
}

/** A new key from the given source of random bytes, which must be a secure one outside of tests. */
export const generateApiKeyFrom = (randomBytes: (size: number) => Uint8Array): ParsedApiKey => {
  const digits = randomDigits(PUBLIC_ID_LENGTH + SECRET_LENGTH, randomBytes)
  const checked = `${PREFIX}${digits.slice(0, PUBLIC_ID_LENGTH)}_${digits.slice(PUBLIC_ID_LENGTH)}`
  const key = checked + base62Checksum(checked)
  return { publicId: publicIdOf(key), key: Redacted.make(key, { label: "ApiKey" }) }
}

/** A new key. Its text is to be shown once and stored nowhere: of it remain the public id and the {@link apiKeyDigest}. */
export const generateApiKey: Effect.Effect<ParsedApiKey> = Effect.sync(() =>
  generateApiKeyFrom(SecureRandom.randomBytesUnsafe)
)
