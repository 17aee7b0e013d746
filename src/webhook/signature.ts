import { concatBytes } from "./concatBytes.ts"
import { refuse, type Refusal } from "./refusal.ts"

/** Maximum length of the header: two signatures need 150 characters. */
const MAX_HEADER_LENGTH = 1024

/** Maximum number of secrets: a rotation needs two. */
const MAX_SECRETS = 16

/** A parsed `X-Svc-Signature` header. */
export interface ParsedSignature {
  /** The digits of `t`, as they were signed. */
  readonly time: string
  /** The `v1` signatures, 32 bytes each. */
  readonly digests: ReadonlyArray<Uint8Array>
}

const decodeHex = (hex: string): Uint8Array => {
  const bytes = new Uint8Array(hex.length / 2)
  for (let at = 0; at < bytes.length; at++) bytes[at] = Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16)
  return bytes
}

/**
 * Parses `t=<unix seconds>,v1=<64 lowercase hex digits>`. `v1` may be repeated, and parts with other names (a future `v2=...`) are ignored.
 * One malformed `v1` invalidates the header.
 */
export const parseSignature = (
  header: string
): { readonly ok: true; readonly signature: ParsedSignature } | Refusal<"malformed_signature"> => {
  const malformed = (why: string) =>
    refuse("malformed_signature", `The signature header is malformed: ${why}.`)
  if (header.length > MAX_HEADER_LENGTH) return malformed(`it is longer than ${MAX_HEADER_LENGTH} characters`)
  let time: string | undefined
  const digests: Array<Uint8Array> = []
  for (const part of header.split(",")) {
    const name = part.slice(0, Math.max(part.indexOf("="), 0))
    const value = part.slice(name.length + 1)
    if (name === "t") {
      if (time !== undefined) return malformed("t is repeated")
      if (!/^[1-9][0-9]{0,11}$/.test(value)) return malformed("t is not a number of unix seconds")
      time = value
    } else if (name === "v1") {
      if (!/^[0-9a-f]{64}$/.test(value)) return malformed("a v1 is not 64 lowercase hex digits")
      digests.push(decodeHex(value))
    } else if (!/^[a-z][a-z0-9]*$/.test(name)) {
      return malformed("a part is not of the form name=value")
    }
  }
  if (time === undefined) return malformed("t is missing")
  if (digests.length === 0) return malformed("v1 is missing")
  return { ok: true, signature: { time, digests } }
}

/** Compares two digests in constant time. */
const digestsEqual = (left: Uint8Array, right: Uint8Array): boolean => {
  let difference = left.length ^ right.length
  for (let at = 0; at < left.length; at++) difference |= (left[at] ?? 0) ^ (right[at] ?? 0)
  return difference === 0
}

type Subtle = typeof globalThis.crypto.subtle

const subtle = async (): Promise<Subtle> => {
  if (typeof crypto !== "undefined") return crypto.subtle
  // Node 18 has Web Crypto, but not as a global. The module name is not a literal inside `import()`, so that bundlers for other runtimes do
  // not try to resolve it.
  const name = "node:crypto"
  const loaded: { readonly webcrypto: { readonly subtle: Subtle } } = await import(name)
  return loaded.webcrypto.subtle
}

/** Throws if a secret is invalid: a mistake in the receiver's own configuration. */
const checkSecrets = (secret: string | ReadonlyArray<string>): ReadonlyArray<string> => {
  // Not checked by `typeof secret === "string"`: an unset environment variable is `undefined`, whatever its type says.
  const secrets = typeof secret === "object" && secret !== null ? secret : [secret]
  if (secrets.length === 0 || secrets.length > MAX_SECRETS) {
    throw new TypeError(`countersign/webhook: pass 1 to ${MAX_SECRETS} secrets`)
  }
  for (const one of secrets) {
    if (typeof one !== "string" || one === "" || one.trim() !== one) {
      throw new TypeError("countersign/webhook: a secret is missing, empty or surrounded by white space")
    }
  }
  return secrets
}

/** Whether one of the digests is the HMAC-SHA256 of `<time>.<body>` under one of the secrets. */
export type SignatureCheck = (signature: ParsedSignature, body: Uint8Array) => Promise<boolean>

/** Imports the secrets' keys once for any number of checks. Throws a TypeError for an invalid secret. */
export const signatureCheck = (secret: string | ReadonlyArray<string>): SignatureCheck => {
  const secrets = checkSecrets(secret)
  const encoder = new TextEncoder()
  const prepare = async () => {
    const api = await subtle()
    const algorithm = { name: "HMAC", hash: "SHA-256" }
    const keys = await Promise.all(
      secrets.map((text) => api.importKey("raw", encoder.encode(text), algorithm, false, ["sign"]))
    )
    return { api, keys }
  }
  let prepared: ReturnType<typeof prepare> | undefined
  return async ({ digests, time }, body) => {
    prepared ??= prepare()
    const { api, keys } = await prepared
    const signed = concatBytes([encoder.encode(`${time}.`), body])
    let found = false
    // All pairs are compared, even after a match, so that the duration reveals nothing. The digest is computed and compared here instead of
    // with `verify`, whose comparison was not constant-time in every version of Node (CVE-2026-21713).
    for (const key of keys) {
      const expected = new Uint8Array(await api.sign("HMAC", key, signed))
      for (const digest of digests) if (digestsEqual(expected, digest)) found = true
    }
    return found
  }
}
