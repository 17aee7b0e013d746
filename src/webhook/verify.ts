import { readEvent, type WebhookEvent } from "./event.ts"
import { refuse, type Refusal } from "./refusal.ts"
import { type ParsedSignature, parseSignature, signatureCheck } from "./signature.ts"

const SIGNATURE_HEADER = "x-svc-signature"

/** A request's headers: the `Headers` of any runtime, or a plain record as in node:http and most frameworks. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** The body exactly as received. A body that was parsed and serialized again does not verify. */
export type RawBody = string | Uint8Array | ArrayBuffer

/** Options of a verification. */
export interface VerifyOptions {
  /** Maximum difference between the signature's timestamp and the local clock, in seconds, in either direction. Default 300. */
  readonly toleranceSeconds?: number | undefined
  /** The local clock, in milliseconds since 1970. Default `Date.now`. */
  readonly now?: (() => number) | undefined
}

/** The verified event, or why the delivery is refused. */
export type Verification = { readonly ok: true; readonly event: WebhookEvent } | Refusal

/** The two halves of a verification, so that a handler can refuse by the header before it reads the body. */
export interface Verifier {
  readonly header: (
    headers: WebhookHeaders
  ) => { readonly ok: true; readonly signature: ParsedSignature } | Refusal
  readonly body: (signature: ParsedSignature, rawBody: RawBody) => Promise<Verification>
}

const hasGet = (headers: WebhookHeaders): headers is { get(name: string): string | null } =>
  typeof headers["get"] === "function"

/** Returns all values of a header, regardless of the case of its name. */
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

/** Buffers are recognized by their tag: `instanceof` fails between realms, as in some test runners. */
const bytesOf = (body: RawBody): Uint8Array => {
  if (typeof body === "string") return new TextEncoder().encode(body)
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  if (Object.prototype.toString.call(body) === "[object ArrayBuffer]") return new Uint8Array(body)
  throw new TypeError(
    "countersign/webhook: pass the raw body (a string, a Uint8Array or an ArrayBuffer), not the result of a body parser"
  )
}

const parseBody = (body: Uint8Array): Verification => {
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body))
  } catch {
    return refuse("body_not_json", "The signature is valid, but the body is not JSON.")
  }
  return readEvent(json)
}

/** Prepares a verification. Throws a TypeError if the options would accept nothing or everything. */
export const verifier = (secret: string | ReadonlyArray<string>, options: VerifyOptions = {}): Verifier => {
  const { now = Date.now, toleranceSeconds = 300 } = options
  // NaN compares as false with everything and would accept every timestamp.
  if (!(Number.isFinite(toleranceSeconds) && toleranceSeconds >= 0)) {
    throw new TypeError("countersign/webhook: toleranceSeconds must be a number of seconds, 0 or more")
  }
  const check = signatureCheck(secret)
  return {
    header: (headers) => {
      const [value, ...more] = valuesOf(headers, SIGNATURE_HEADER)
      if (value === undefined) return refuse("missing_signature", "The X-Svc-Signature header is missing.")
      if (more.length > 0) {
        return refuse("malformed_signature", "The signature header is malformed: it is repeated.")
      }
      const read = parseSignature(value)
      if (!read.ok) return read
      const age = now() / 1000 - Number(read.signature.time)
      // Negated, so that a clock that returns NaN refuses.
      if (!(age <= toleranceSeconds)) {
        return refuse(
          "stale_timestamp",
          `The signature is ${Math.round(age)} s old; the tolerance is ${toleranceSeconds} s. Check the clock of this machine.`
        )
      }
      if (!(-age <= toleranceSeconds)) {
        return refuse(
          "future_timestamp",
          `The signature is ${Math.round(-age)} s in the future; the tolerance is ${toleranceSeconds} s. Check the clock of this machine.`
        )
      }
      return read
    },
    body: async (signature, rawBody) => {
      const bytes = bytesOf(rawBody)
      if (await check(signature, bytes)) return parseBody(bytes)
      return refuse("no_matching_signature", "No signature matches this body and the given secrets.")
    }
  }
}

/**
 * Verifies that a delivery is from Countersign and unchanged, and decodes its event. The signature is checked before the body is parsed,
 * digests are compared in constant time, and the timestamp must be within five minutes of the local clock.
 *
 * A bad delivery is returned as a refusal and never thrown; a TypeError means that the call itself is wrong (an empty secret, a parsed
 * body). During a rotation pass both secrets. Deliveries can arrive more than once and out of order: deduplicate by `event.id`, and check
 * `event.org_id` if you serve one organization.
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
