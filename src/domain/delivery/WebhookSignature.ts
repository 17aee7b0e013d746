import { createHmac, createSecretKey, type KeyObject } from "node:crypto"
import { Effect, Redacted, Result } from "effect"
import { SecureRandom } from "effect/crypto"

/**
 * Signs what is sent to a receiver, in two dialects at once:
 *
 * - `X-Svc-Signature: t=<unix seconds>,v1=<64 lowercase hex>`: HMAC-SHA256 over `<t>.<body>`, keyed with the secret's
 *   text exactly as it was returned.
 * - `webhook-signature: v1,<base64>` of Standard Webhooks 1.0: HMAC-SHA256 over `<id>.<t>.<body>`, keyed with the bytes
 *   that the secret's base64 stands for.
 *
 * While a secret is being rotated both secrets sign, the newer first. The receivers' half is `countersign/webhook`; tests
 * tie the two, and the published libraries of the standard, together.
 */
const SECRET_PREFIX = "whsec_"
const SECRET_BYTES = 32

/** 32 bytes in base64, in the one spelling that an encoder gives: 43 digits, the last of them with two zero bits, and `=`. */
const secretForm = /^whsec_[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=$/

/** A new signing secret: `whsec_` and 32 random bytes in base64. Shown once; kept sealed. */
export const generateSigningSecret: Effect.Effect<Redacted.Redacted<string>> = Effect.sync(() =>
  Redacted.make(
    SECRET_PREFIX + Buffer.from(SecureRandom.randomBytesUnsafe(SECRET_BYTES)).toString("base64"),
    {
      label: "SigningSecret"
    }
  )
)

/** A secret made ready for signing: both dialects' keys, prepared once and used for every attempt. Prints without its bytes. */
interface SigningKey {
  readonly asReturned: KeyObject
  readonly decoded: KeyObject
}

/** Prepares a secret. Fails on a text that {@link generateSigningSecret} cannot have made, and does not repeat it. */
export const makeSigningKey = (
  secret: Redacted.Redacted<string>
): Result.Result<SigningKey, "malformed secret"> => {
  const text = Redacted.value(secret)
  if (!secretForm.test(text)) return Result.fail("malformed secret")
  return Result.succeed({
    asReturned: createSecretKey(text, "utf8"),
    decoded: createSecretKey(text.slice(SECRET_PREFIX.length), "base64")
  })
}

/** The keys of one endpoint: the secret in force and, for 24 h after a rotation, the one before it. */
export interface SigningKeys {
  readonly current: SigningKey
  readonly previous: SigningKey | null
}

/** One attempt to deliver one event. */
interface SignedAttempt {
  readonly eventId: string
  readonly eventType: string
  /** When this attempt starts, in whole unix seconds: each attempt is signed anew, so that a late one is not stale. */
  readonly timestamp: number
  /** The exact bytes that go out, or their text: what is signed is its UTF-8. */
  readonly body: Uint8Array | string
}

/** The headers of one attempt that say what it is and prove where it is from. A type alias, so that it passes for a record. */
type SignatureHeaders = {
  readonly "X-Svc-Event-Id": string
  readonly "X-Svc-Event-Type": string
  readonly "X-Svc-Signature": string
  readonly "webhook-id": string
  readonly "webhook-timestamp": string
  readonly "webhook-signature": string
}

const mac = (key: KeyObject, head: string, body: Uint8Array | string, encoding: "hex" | "base64"): string =>
  createHmac("sha256", key).update(head).update(body).digest(encoding)

/** All headers of one attempt. Plain and synchronous: it runs once per attempt, and costs one HMAC per key and dialect. */
export const signatureHeaders = (keys: SigningKeys, attempt: SignedAttempt): SignatureHeaders => {
  const { body, eventId } = attempt
  const time = String(attempt.timestamp)
  let ours = `t=${time},v1=${mac(keys.current.asReturned, `${time}.`, body, "hex")}`
  let standard = `v1,${mac(keys.current.decoded, `${eventId}.${time}.`, body, "base64")}`
  if (keys.previous !== null) {
    ours += `,v1=${mac(keys.previous.asReturned, `${time}.`, body, "hex")}`
    standard += ` v1,${mac(keys.previous.decoded, `${eventId}.${time}.`, body, "base64")}`
  }
  return {
    "X-Svc-Event-Id": eventId,
    "X-Svc-Event-Type": attempt.eventType,
    "X-Svc-Signature": ours,
    "webhook-id": eventId,
    "webhook-timestamp": time,
    "webhook-signature": standard
  }
}
