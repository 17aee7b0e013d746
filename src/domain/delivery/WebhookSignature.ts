import { createHmac, createSecretKey, type KeyObject } from "node:crypto"
import { Effect, Redacted, Result } from "effect"
import { SecureRandom } from "effect/crypto"

/**
 * Signs webhook deliveries in two formats, or three:
 *
 * - `X-Svc-Signature: t=<unix seconds>,v1=<64 lowercase hex>`: HMAC-SHA256 over `<t>.<body>`, keyed with the secret's text exactly as the
 *   API returned it.
 * - `webhook-signature: v1,<base64>` of Standard Webhooks 1.0: HMAC-SHA256 over `<id>.<t>.<body>`, keyed with the bytes that the secret's
 *   base64 encodes.
 *
 * An endpoint can ask for a third, which needs no secret to verify: `v1a,<base64>` of Standard Webhooks beside the second, Ed25519 over the
 * same text with the installation's key.
 *
 * During a secret rotation both secrets sign, the newer first. `countersign/webhook` verifies for receivers; tests check both formats
 * against it and against the published Standard Webhooks libraries.
 */
const SECRET_PREFIX = "whsec_"
const SECRET_BYTES = 32

/** 32 bytes in canonical base64: 43 digits, the last with two zero bits, and `=`. */
const secretForm = /^whsec_[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=$/

/** Generates a signing secret: `whsec_` and 32 random bytes in base64. It is shown once and stored sealed. */
export const generateSigningSecret: Effect.Effect<Redacted.Redacted<string>> = Effect.sync(() =>
  Redacted.make(
    SECRET_PREFIX + Buffer.from(SecureRandom.randomBytesUnsafe(SECRET_BYTES)).toString("base64"),
    {
      label: "SigningSecret"
    }
  )
)

/**
 * A secret prepared for signing: the keys of both formats, imported once and used for every attempt. Printing it does not reveal its bytes.
 */
interface SigningKey {
  readonly asReturned: KeyObject
  readonly decoded: KeyObject
}

/** Prepares a secret. Fails if {@link generateSigningSecret} cannot have made the text; the failure does not contain it. */
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

/** The keys of one endpoint: the current secret and, for 24 h after a rotation, the previous one. */
export interface SigningKeys {
  readonly current: SigningKey
  readonly previous: SigningKey | null
  /** Signs with Ed25519; absent: the endpoint has not asked for it. */
  readonly signPublicly?: (content: Uint8Array) => Uint8Array
}

/** One attempt to deliver one event. */
interface SignedAttempt {
  readonly eventId: string
  readonly eventType: string
  /** When this attempt starts, in whole unix seconds. Each attempt has its own timestamp, so a late retry is not stale. */
  readonly timestamp: number
  /** The exact body: its bytes, or the text whose UTF-8 is signed. */
  readonly body: Uint8Array | string
}

/** The identifying and signing headers of one attempt. A type alias, so that it is assignable to a record. */
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

/** Returns all headers of one attempt. Synchronous: it runs once per attempt and costs one HMAC per key and format, and 50 µs for a public signature. */
export const signatureHeaders = (keys: SigningKeys, attempt: SignedAttempt): SignatureHeaders => {
  const { body, eventId } = attempt
  const time = String(attempt.timestamp)
  let ours = `t=${time},v1=${mac(keys.current.asReturned, `${time}.`, body, "hex")}`
  let standard = `v1,${mac(keys.current.decoded, `${eventId}.${time}.`, body, "base64")}`
  if (keys.previous !== null) {
    ours += `,v1=${mac(keys.previous.asReturned, `${time}.`, body, "hex")}`
    standard += ` v1,${mac(keys.previous.decoded, `${eventId}.${time}.`, body, "base64")}`
  }
  if (keys.signPublicly !== undefined) {
    const content = Buffer.concat([Buffer.from(`${eventId}.${time}.`), Buffer.from(body)])
    standard += ` v1a,${Buffer.from(keys.signPublicly(content)).toString("base64")}`
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
