import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import { Result } from "effect"
import { keyIdBytes, type KeyRing, type MasterKey } from "./KeyRing.ts"

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
export type OpenFault = "malformed" | "unknown_key" | "not_authentic"

/*
 * version (1) ‖ key id (8) ‖ nonce (12) ‖ tag (16) ‖ ciphertext
 */
const version = 1
const nonceStart = 1 + keyIdBytes
const nonceBytes = 12
const tagStart = nonceStart + nonceBytes
const tagBytes = 16
const textStart = tagStart + tagBytes

/** Bytes that say with which key a value was sealed: version and key id, the first nine. */
export const prefixBytes = nonceStart

/** Bytes that sealing adds to a value. */
export const overheadBytes = textStart

/** The prefix of all that a key seals. */
export const prefixOf = ({ id }: Pick<MasterKey, "id">): Uint8Array =>
  Buffer.from([version, ...Buffer.from(id, "hex")])

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
const options = { authTagLength: tagBytes }

/**
 * Seals bytes with AES-256-GCM. The nonce is random, which is sound for 2^32 values a key (NIST SP 800-38D, 8.3): a key
 * that seals a hundred values a second lasts for over a year at that margin, and a rotation starts the count anew.
 */
export const seal = (master: MasterKey, place: Place, plaintext: Uint8Array): Uint8Array => {
  const prefix = prefixOf(master)
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv("aes-256-gcm", master.key, nonce, options)
  cipher.setAAD(associatedData(prefix, place))
  const ciphertext = cipher.update(plaintext)
  cipher.final()
  return Buffer.concat([prefix, nonce, cipher.getAuthTag(), ciphertext])
}

/** The id of the key that a value was sealed with, read from its first nine bytes; null where they are not of the format. */
export const sealedWith = (sealed: Uint8Array): string | null =>
  sealed.length >= prefixBytes && sealed[0] === version
    ? Buffer.from(sealed.subarray(1, prefixBytes)).toString("hex")
    : null

/** Opens what {@link seal} made, at the place it was made for. */
export const open = (
  ring: KeyRing,
  place: Place,
  sealed: Uint8Array
): Result.Result<Uint8Array, OpenFault> => {
  const id = sealedWith(sealed)
  if (id === null || sealed.length < overheadBytes) return Result.fail("malformed")
  const master = ring.byId.get(id)
  if (master === undefined) return Result.fail("unknown_key")
  const decipher = createDecipheriv("aes-256-gcm", master.key, sealed.subarray(nonceStart, tagStart), options)
  decipher.setAAD(associatedData(sealed.subarray(0, prefixBytes), place))
  decipher.setAuthTag(sealed.subarray(tagStart, textStart))
  const plaintext = decipher.update(sealed.subarray(textStart))
  try {
    decipher.final()
  } catch {
    // The one thing `final` throws for is a tag that does not fit; the bytes read so far are then nobody's.
    return Result.fail("not_authentic")
  }
  return Result.succeed(plaintext)
}
