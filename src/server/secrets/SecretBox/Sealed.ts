import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import { Result } from "effect"
import { KEY_ID_BYTES, type KeyRing, type MasterKey } from "./KeyRing.ts"

/**
 * Where a sealed value lives. It is bound to the value as associated data: bytes copied to another organization, table,
 * row or column do not open there.
 */
export interface Place {
  readonly org_id: string
  readonly table: string
  readonly row_id: string
  readonly column: string
}

/** Why a value does not open: not of the format, sealed with a key that the ring lacks, or altered or moved. */
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

/** Bytes that say with which key a value was sealed: version and key id, the first nine. */
const PREFIX_BYTES = NONCE_START

/** Bytes that sealing adds to a value. */
const OVERHEAD_BYTES = TEXT_START

/** The prefix of all that a key seals. */
export const prefixOf = ({ id }: Pick<MasterKey, "id">): Uint8Array =>
  Buffer.from([VERSION, ...Buffer.from(id, "hex")])

/**
 * JSON keeps the parts of the place apart whatever characters they hold, and the prefix in front of them keeps the version
 * and the key id from being exchanged.
 */
const associatedData = (prefix: Uint8Array, place: Place): Buffer =>
  Buffer.concat([
    prefix,
    Buffer.from(
      JSON.stringify(["countersign-sealed-v1", place.org_id, place.table, place.row_id, place.column])
    )
  ])

/** The tag's length is always named: without it Node takes a tag cut to 4 bytes. */
const options = { authTagLength: TAG_BYTES }

/**
 * Seals bytes with AES-256-GCM. The nonce is random, which is sound for 2^32 values a key (NIST SP 800-38D, 8.3): a key
 * that seals a hundred values a second lasts for over a year at that margin, and a rotation starts the count anew.
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

/** The id of the key that a value was sealed with, read from its first nine bytes; null where they are not of the format. */
export const keyIdOf = (sealed: Uint8Array): string | null =>
  sealed.length >= PREFIX_BYTES && sealed[0] === VERSION
    ? Buffer.from(sealed.subarray(1, PREFIX_BYTES)).toString("hex")
    : null

/** Opens what {@link seal} made, at the place it was made for. */
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
    // The one thing `final` throws for is a tag that does not fit; the bytes read so far are then nobody's.
    return Result.fail("not_authentic")
  }
  return Result.succeed(plaintext)
}
