import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import { Result } from "effect"
import { KEY_ID_BYTES, type KeyRing, type MasterKey } from "../KeyRing.ts"

/**
 * The location of a sealed value, bound to it as associated data (AEAD): bytes that are copied to another organization, table, row or
 * column cannot be unsealed there.
 */
export interface Place {
  readonly org_id: string
  readonly table: string
  readonly row_id: string
  readonly column: string
}

/** Why a value cannot be unsealed: not in the format, sealed with a key that the ring lacks, or altered or moved. */
export type UnsealFault = "malformed" | "unknown_key" | "not_authentic"

/*
 * version (1) ‖ key id (8) ‖ nonce (12) ‖ tag (16) ‖ ciphertext
 */
const VERSION = 1
const NONCE_START = 1 + KEY_ID_BYTES
const NONCE_BYTES = 12
const TAG_START = NONCE_START + NONCE_BYTES
const TAG_BYTES = 16
const TEXT_START = TAG_START + TAG_BYTES

/** The version and the key id: the first nine bytes. */
export const PREFIX_BYTES = NONCE_START

/** The first byte of every sealed value. */
export const VERSION_PREFIX: Uint8Array = Buffer.from([VERSION])

/** Bytes that sealing adds to a value. */
const OVERHEAD_BYTES = TEXT_START

/** The prefix of every value that a key seals. */
export const prefixOf = ({ id }: Pick<MasterKey, "id">): Uint8Array =>
  Buffer.from([VERSION, ...Buffer.from(id, "hex")])

/** JSON delimits the parts of the place whatever characters they contain; the prefix authenticates the version and the key id. */
const associatedData = (prefix: Uint8Array, place: Place): Buffer =>
  Buffer.concat([
    prefix,
    Buffer.from(
      JSON.stringify(["countersign-sealed-v1", place.org_id, place.table, place.row_id, place.column])
    )
  ])

/** Without an explicit tag length, Node accepts a tag truncated to 4 bytes. */
const options = { authTagLength: TAG_BYTES }

/**
 * Seals bytes with AES-256-GCM. The nonce is random, which is safe for 2^32 values per key (NIST SP 800-38D, 8.3): at 100 values per second
 * a key lasts more than a year, and a rotation resets the count. `node:crypto` and not Effect's `Aead`, which is asynchronous (WebCrypto):
 * sealing is on a hot path.
 */
export const seal = (master: MasterKey, place: Place, plaintext: Uint8Array): Uint8Array => {
  const prefix = prefixOf(master)
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv("aes-256-gcm", master.key, nonce, options)
  cipher.setAAD(associatedData(prefix, place))
  const ciphertext = cipher.update(plaintext)
  cipher.final()
  return Buffer.concat([prefix, nonce, cipher.getAuthTag(), ciphertext])
}

/** The id of the key that sealed a value, read from its first nine bytes; null if they are not in the format. */
export const keyIdOf = (sealed: Uint8Array): string | null =>
  sealed.length >= PREFIX_BYTES && sealed[0] === VERSION
    ? Buffer.from(sealed.subarray(1, PREFIX_BYTES)).toString("hex")
    : null

/** Unseals a value at the place that {@link seal} sealed it for. */
export const unseal = (
  ring: KeyRing,
  place: Place,
  sealed: Uint8Array
): Result.Result<Uint8Array, UnsealFault> => {
  const id = keyIdOf(sealed)
  if (id === null || sealed.length < OVERHEAD_BYTES) return Result.fail("malformed")
  const master = ring.byId.get(id)
  if (master === undefined) return Result.fail("unknown_key")
  const decipher = createDecipheriv(
    "aes-256-gcm",
    master.key,
    sealed.subarray(NONCE_START, TAG_START),
    options
  )
  decipher.setAAD(associatedData(sealed.subarray(0, PREFIX_BYTES), place))
  decipher.setAuthTag(sealed.subarray(TAG_START, TEXT_START))
  const plaintext = decipher.update(sealed.subarray(TEXT_START))
  try {
    decipher.final()
  } catch {
    // `final` throws only if the tag does not match. The bytes decrypted so far are not authentic and are discarded.
    return Result.fail("not_authentic")
  }
  return Result.succeed(plaintext)
}
