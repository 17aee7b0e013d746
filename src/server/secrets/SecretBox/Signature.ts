import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto"
import type { KeyRing, MasterKey } from "../KeyRing.ts"

/**
 * What signatures are for. Each purpose has a signing key of its own, derived from the master key. A signature for one
 * purpose is not valid for another, and reveals nothing about the values that the master key seals.
 */
export type Purpose = "backup" | "feedback-token"

const KEY_BYTES = 32

/** Signing keys by master key and purpose: deriving one takes ten times as long as signing. */
const derived = new WeakMap<MasterKey, Map<Purpose, Uint8Array>>()

const signingKey = (master: MasterKey, purpose: Purpose): Uint8Array => {
  const keys = derived.get(master) ?? new Map<Purpose, Uint8Array>()
  derived.set(master, keys)
  const known = keys.get(purpose)
  if (known !== undefined) return known
  // HKDF (RFC 5869) over SHA-256. The master key is random, so no salt is needed.
  const key = new Uint8Array(
    hkdfSync("sha256", master.key, "", `countersign-signing-v1 ${purpose}`, KEY_BYTES)
  )
  keys.set(purpose, key)
  return key
}

const hmac = (master: MasterKey, purpose: Purpose, text: string): Buffer =>
  createHmac("sha256", signingKey(master, purpose)).update(text).digest()

/** A signature: the id of the master key and the HMAC-SHA256 of the text, in hex and base64url. */
export const sign = (master: MasterKey, purpose: Purpose, text: string): string =>
  `${master.id}.${hmac(master, purpose, text).toString("base64url")}`

/** Whether a key of the ring made this signature of the text for this purpose. Compares in constant time. */
export const isSignedBy = (ring: KeyRing, purpose: Purpose, text: string, signature: string): boolean => {
  const [id = "", mac = "", ...rest] = signature.split(".")
  const master = ring.byId.get(id)
  if (master === undefined || rest.length > 0) return false
  const expected = hmac(master, purpose, text)
  const given = Buffer.from(mac, "base64url")
  // The decoder ignores characters that are not base64url: a signature has one spelling.
  return (
    given.length === expected.length &&
    timingSafeEqual(given, expected) &&
    given.toString("base64url") === mac
  )
}
