/**
 * The key that an export is sealed for. The installation that will import makes it, and prints its public half:
 *
 *     cst1_ ‖ base64url(id of a master key (8) ‖ salt (16) ‖ X25519 public key (32))
 *
 * The private half is derived from that master key and the salt, so it is stored nowhere.
 */
import {
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes
} from "node:crypto"
import { Option } from "effect"
import type { SecretBox } from "../../secrets/SecretBox.ts"

const PREFIX = "cst1_"
const KEY_ID_BYTES = 8
const SALT_BYTES = 16
const PUBLIC_BYTES = 32
/** Bytes of a decoded transfer key. */
export const TRANSFER_KEY_BYTES = KEY_ID_BYTES + SALT_BYTES + PUBLIC_BYTES

/** The DER encodings of X25519 keys (RFC 8410), without the 32 bytes of the key at their ends. */
const PRIVATE_DER = Buffer.from("302e020100300506032b656e04220420", "hex")
const PUBLIC_DER = Buffer.from("302a300506032b656e032100", "hex")

const PURPOSE = "organization-transfer"

const privateKeyOf = (seed: Uint8Array): KeyObject =>
  createPrivateKey({ key: Buffer.concat([PRIVATE_DER, seed]), format: "der", type: "pkcs8" })

const publicKeyOf = (bytes: Uint8Array): KeyObject =>
  createPublicKey({ key: Buffer.concat([PUBLIC_DER, bytes]), format: "der", type: "spki" })

const publicBytesOf = (key: KeyObject): Buffer =>
  createPublicKey(key).export({ format: "der", type: "spki" }).subarray(PUBLIC_DER.length)

/** Makes a new transfer key of this installation. */
export const makeTransferKey = (box: SecretBox["Service"]): string => {
  const salt = randomBytes(SALT_BYTES)
  const [key_id] = box.keyIds
  const seed = box.deriveSeed(PURPOSE, salt) ?? new Uint8Array()
  return `${PREFIX}${Buffer.concat([Buffer.from(key_id, "hex"), salt, publicBytesOf(privateKeyOf(seed))]).toString("base64url")}`
}

/** Decodes a transfer key; none if it is malformed. */
export const parseTransferKey = (text: string): Option.Option<Buffer> => {
  const bytes = Buffer.from(text.slice(PREFIX.length), "base64url")
  return text.startsWith(PREFIX) &&
    bytes.length === TRANSFER_KEY_BYTES &&
    `${PREFIX}${bytes.toString("base64url")}` === text
    ? Option.some(bytes)
    : Option.none()
}

/** The key of one file: from the shared secret of both sides (X25519, HKDF-SHA256), bound to the public keys of both. */
const fileKey = (shared: Uint8Array, ephemeral: Uint8Array, transferKey: Uint8Array): Uint8Array =>
  new Uint8Array(
    hkdfSync(
      "sha256",
      shared,
      Buffer.concat([ephemeral, transferKey]),
      "countersign-organization-file-v1",
      32
    )
  )

/** Makes the key of a new file, and the public bytes that the file has for its reader. */
export const sealFor = (
  transferKey: Uint8Array
): { readonly ephemeral: Buffer; readonly key: Uint8Array } => {
  const { privateKey } = generateKeyPairSync("x25519")
  const ephemeral = publicBytesOf(privateKey)
  const publicKey = publicKeyOf(transferKey.subarray(KEY_ID_BYTES + SALT_BYTES))
  return { ephemeral, key: fileKey(diffieHellman({ privateKey, publicKey }), ephemeral, transferKey) }
}

/** The key of a file that was sealed for a transfer key of this installation; none if it was made with another master key. */
export const openWith = (
  box: SecretBox["Service"],
  transferKey: Uint8Array,
  ephemeral: Uint8Array
): Option.Option<Uint8Array> => {
  const key_id = Buffer.from(transferKey.subarray(0, KEY_ID_BYTES)).toString("hex")
  const salt = transferKey.subarray(KEY_ID_BYTES, KEY_ID_BYTES + SALT_BYTES)
  const seed = box.deriveSeed(PURPOSE, salt, key_id)
  if (seed === undefined) return Option.none()
  const privateKey = privateKeyOf(seed)
  if (!publicBytesOf(privateKey).equals(transferKey.subarray(KEY_ID_BYTES + SALT_BYTES))) return Option.none()
  return Option.some(
    fileKey(diffieHellman({ privateKey, publicKey: publicKeyOf(ephemeral) }), ephemeral, transferKey)
  )
}
