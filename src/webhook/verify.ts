import { readEvent, type WebhookEvent } from "./event.ts"
import { refuse, type Refusal } from "./refusal.ts"
import { type ReadSignature, readSignature, signatureCheck } from "./signature.ts"

const SIGNATURE_HEADER = "x-svc-signature"

/** A request's headers: the `Headers` of any runtime, or a plain record as node:http and most frameworks give it. */
export type WebhookHeaders =
  { get(name: string): string | null } | Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** The body exactly as it came over the wire. A body that was parsed and written again is another body. */
export type RawBody = string | Uint8Array | ArrayBuffer

/** What a check goes by, besides the secret. */
export interface VerifyOptions {
  /** How far the signing may lie from this machine's clock, in seconds, either way. Default 300. */
  readonly toleranceSeconds?: number | undefined
  /** This machine's clock, in milliseconds since 1970. Default `Date.now`. */
  readonly now?: (() => number) | undefined
}

/** The event where all of it verified, else why it is refused. */
export type Verification = { readonly ok: true; readonly event: WebhookEvent } | Refusal

/** The two halves of a check, so that a handler can refuse by the header before it reads a body. */
export interface Verifier {
  readonly header: (
    headers: WebhookHeaders
  ) => { readonly ok: true; readonly signature: ReadSignature } | Refusal
  readonly body: (signature: ReadSignature, rawBody: RawBody) => Promise<Verification>
}

const hasGet = (headers: WebhookHeaders): headers is { get(name: string): string | null } =>
  typeof headers["get"] === "function"

/** Every value of a header, whatever the case of its name. */
const valuesOf = (headers: WebhookHeaders, name: string): ReadonlyArray<string> => {
  if (hasGet(headers)) {
    const value = headers.get(name)
    return value === null ? [] : [value]
  }
  const values: Array<string> = []
  for (const [key, value] of Object.entries(headers)) {
    if (value === undefined || key.toLowerCase() !== name) continue
    if (typeof value === "string") values.push(value)
    else values.push(...value)
  }
  return values
}

/** Views and buffers are told by their tag: `instanceof` fails between realms, as under some test runners. */
const bytesOf = (body: RawBody): Uint8Array => {
  if (typeof body === "string") return new TextEncoder().encode(body)
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  if (Object.prototype.toString.call(body) === "[object ArrayBuffer]") return new Uint8Array(body)
  throw new TypeError(
    "countersign/webhook: give the raw body (a string, a Uint8Array or an ArrayBuffer), not what a body parser made of it"
  )
}

const parse = (body: Uint8Array): Verification => {
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body))
  } catch {
    return refuse("body_not_json", "The body is signed rightly and is no JSON.")
  }
  return readEvent(json)
}

/** Prepares a check. Throws a TypeError where the options can accept nothing, or everything. */
export const verifier = (secret: string | ReadonlyArray<string>, options: VerifyOptions = {}): Verifier => {
  const { now = Date.now, toleranceSeconds = 300 } = options
  // NaN compares as false with anything, and would let every timestamp pass.
  if (!(Number.isFinite(toleranceSeconds) && toleranceSeconds >= 0)) {
    throw new TypeError("countersign/webhook: toleranceSeconds is a number of seconds, 0 or more")
  }
  const check = signatureCheck(secret)
  return {
    header: (headers) => {
      const [value, ...more] = valuesOf(headers, SIGNATURE_HEADER)
      if (value === undefined) return refuse("missing_signature", "There is no X-Svc-Signature header.")
      if (more.length > 0) {
        return refuse("malformed_signature", "The signature header is malformed: it comes twice.")
      }
      const read = readSignature(value)
      if (!read.ok) return read
      const age = now() / 1000 - Number(read.signature.time)
      // Written so that a clock that gives no number refuses.
      if (!(age <= toleranceSeconds)) {
        return refuse(
          "stale_timestamp",
          `It was signed ${Math.round(age)} s ago; ${toleranceSeconds} s are allowed.`
        )
      }
      if (!(-age <= toleranceSeconds)) {
        return refuse(
          "future_timestamp",
          `It was signed ${Math.round(-age)} s ahead of this clock; ${toleranceSeconds} s are allowed.`
        )
      }
      return read
    },
    body: async (signature, rawBody) => {
      const bytes = bytesOf(rawBody)
      if (await check(signature, bytes)) return parse(bytes)
      return refuse(
        "no_matching_signature",
        "No signature fits this body and the secrets that are known here."
      )
    }
  }
}

/**
 * Tells whether a delivery is from Countersign and unchanged, and reads its event. The signature is checked before the
 * body is parsed, digests are compared in constant time, and the timestamp must be within five minutes of this clock.
 *
 * What a peer sends is answered, never thrown; a TypeError says that the receiver's own call is wrong (an empty secret,
 * a body that was parsed). During a rotation give both secrets. Deliveries can come more than once, and out of order:
 * deduplicate by `event.id`, and check `event.org_id` where you serve one organization.
 */
export const verify = async (
  rawBody: RawBody,
  headers: WebhookHeaders,
  secret: string | ReadonlyArray<string>,
  options?: VerifyOptions
): Promise<Verification> => {
  const { body, header } = verifier(secret, options)
  const read = header(headers)
  return read.ok ? body(read.signature, rawBody) : read
}
