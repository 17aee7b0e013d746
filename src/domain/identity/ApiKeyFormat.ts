import { createHash, timingSafeEqual } from "node:crypto"
import { crc32 } from "node:zlib"
import { Effect, Redacted, Result, Schema } from "effect"
import { SecureRandom } from "effect/crypto"

/**
 * The format of an API key: `csk_<16 base62 public id>_<43 base62 secret><6 base62 checksum>`, 70 characters of `0-9A-Za-z` and `_`, so
 * that a double click selects all of it. The secret has 256 random bits, so an unsalted SHA-256 is enough to store it. The checksum is the
 * CRC-32 (as in zlib) of everything before it, most significant digit first. It rejects typing errors without a database lookup, and lets a
 * secret scanner tell keys from similar text.
 */
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const BASE = ALPHABET.length

const PREFIX = "csk_"
const PUBLIC_ID_LENGTH = 16
const SECRET_LENGTH = 43
const CHECKSUM_LENGTH = 6
const CHECKED_LENGTH = PREFIX.length + PUBLIC_ID_LENGTH + 1 + SECRET_LENGTH

/** Length of every key, in characters. */
const KEY_LENGTH = CHECKED_LENGTH + CHECKSUM_LENGTH

/** The part of a key that identifies it: 16 base62 digits, stored and shown in plain text. */
export const PublicId = Schema.String.check(
  Schema.isPattern(/^[0-9A-Za-z]{16}$/, { expected: "16 characters of 0-9, A-Z, a-z" })
).pipe(Schema.brand("ApiKeyPublicId"))
export type PublicId = typeof PublicId.Type

/** A key of valid format and checksum. Whether it exists, and whose it is, is looked up in the database. */
export interface ParsedApiKey {
  readonly publicId: PublicId
  readonly key: Redacted.Redacted<string>
}

/** Why a text is not a key: wrong format, or a checksum that does not match (a typing error). */
export type ApiKeyParseError = "malformed" | "checksum"

/**
 * The CRC-32 (as in zlib) of a text in base62, most significant digit first, padded with `0` to six digits, as in
 * GitHub's and npm's tokens.
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

const KEY = /^csk_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/

const publicIdOf = (key: string): PublicId =>
  PublicId.make(key.slice(PREFIX.length, PREFIX.length + PUBLIC_ID_LENGTH), { disableChecks: true })

const checksumMatches = (key: string): boolean =>
  key.slice(CHECKED_LENGTH) === base62Checksum(key.slice(0, CHECKED_LENGTH))

/**
 * Parses a key. Rejects every key with one wrong character, or with two adjacent characters swapped before the
 * checksum: a CRC-32 detects each burst error of up to 32 bits. Of random texts of this format, one in 62^6 (5.7 *
 * 10^10) passes.
 */
export const parseApiKey = (text: string): Result.Result<ParsedApiKey, ApiKeyParseError> => {
  // Checks the length first, so that the regular expression never runs over a megabyte of header.
  if (text.length !== KEY_LENGTH || !KEY.test(text)) return Result.fail("malformed")
  if (!checksumMatches(text)) return Result.fail("checksum")
  return Result.succeed({ publicId: publicIdOf(text), key: Redacted.make(text, { label: "ApiKey" }) })
}

/** The digest stored beside a key's public id: the SHA-256 of its whole text, 32 bytes. */
export const apiKeyDigest = (key: Redacted.Redacted<string>): Uint8Array =>
  createHash("sha256").update(Redacted.value(key), "latin1").digest()

/** Compares two digests in constant time. */
export const digestsEqual = (left: Uint8Array, right: Uint8Array): boolean =>
  left.length === right.length && timingSafeEqual(left, right)

/** A key's text up to its secret (`csk_<public id>_`): enough to tell keys apart, useless for authentication. */
export const apiKeyHint = (publicId: PublicId): string => `${PREFIX}${publicId}_`

/** The position of a key in a text: `start` inclusive, `end` exclusive, in UTF-16 code units. */
export interface ApiKeyOccurrence {
  readonly start: number
  readonly end: number
  readonly publicId: PublicId
}

/**
 * Finds every key in a text, in linear time: a candidate has a fixed length. After a candidate that fails, the search resumes after its
 * `csk_`, because a truncated key can run into the start of a complete one.
 */
export const findApiKeys = (text: string): ReadonlyArray<ApiKeyOccurrence> => {
  const candidate = /csk_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}/g
  const found: Array<ApiKeyOccurrence> = []
  for (let match = candidate.exec(text); match !== null; match = candidate.exec(text)) {
    const key = match[0]
    if (checksumMatches(key)) {
      found.push({ start: match.index, end: match.index + KEY_LENGTH, publicId: publicIdOf(key) })
    } else {
      candidate.lastIndex = match.index + PREFIX.length
    }
  }
  return found
}

/** Reads of the random source before it is considered broken. One key in 10^9 needs a third read. */
const MAX_READS = 16

/** The largest multiple of 62 in a byte's range. Bytes from here on are discarded, because `0` to `7` would be likelier otherwise. */
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

/** Generates a key from the given source of random bytes, which must be cryptographically secure outside of tests. */
export const generateApiKeyFrom = (randomBytes: (size: number) => Uint8Array): ParsedApiKey => {
  const digits = randomDigits(PUBLIC_ID_LENGTH + SECRET_LENGTH, randomBytes)
  const checked = `${PREFIX}${digits.slice(0, PUBLIC_ID_LENGTH)}_${digits.slice(PUBLIC_ID_LENGTH)}`
  const key = checked + base62Checksum(checked)
  return { publicId: publicIdOf(key), key: Redacted.make(key, { label: "ApiKey" }) }
}

/** Generates a key. Its text is shown once and never stored; the public id and the {@link apiKeyDigest} are. */
export const generateApiKey: Effect.Effect<ParsedApiKey> = Effect.sync(() =>
  generateApiKeyFrom(SecureRandom.randomBytesUnsafe)
)
