import { createHash, createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign } from "node:crypto"
import type { MasterKey } from "../KeyRing.ts"

/** A public key as a JSON Web Key (RFC 8037). Its `kid` is its thumbprint (RFC 7638). */
export interface PublicKey {
  readonly kty: "OKP"
  readonly crv: "Ed25519"
  readonly alg: "EdDSA"
  readonly use: "sig"
  readonly kid: string
  /** The 32 bytes of the key, in base64url. */
  readonly x: string
}

interface KeyPair {
  readonly privateKey: KeyObject
  readonly publicKey: PublicKey
}

/** What precedes the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410). */
const PKCS_8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex")

const derived = new WeakMap<MasterKey, KeyPair>()

/**
 * The key pair of a master key. It is derived (HKDF, RFC 5869), so it is stored nowhere, every replica has it, and a rotation of
 * the master key rotates it.
 */
const keyPair = (master: MasterKey): KeyPair => {
  const known = derived.get(master)
  if (known !== undefined) return known
  const seed = Buffer.from(hkdfSync("sha256", master.key, "", "countersign-ed25519-v1", 32))
  const privateKey = createPrivateKey({
    key: Buffer.concat([PKCS_8_PREFIX, seed]),
    format: "der",
    type: "pkcs8"
  })
  const { x = "" } = createPublicKey(privateKey).export({ format: "jwk" })
  const kid = createHash("sha256").update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest("base64url")
  const pair: KeyPair = {
    privateKey,
    publicKey: { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid, x }
  }
  derived.set(master, pair)
  return pair
}

/** The public key of a master key. */
export const publicKeyOf = (master: MasterKey): PublicKey => keyPair(master).publicKey

/** Signs bytes. Takes 50 µs. */
export const signWith = (master: MasterKey, content: Uint8Array): Uint8Array =>
  sign(null, content, keyPair(master).privateKey)
