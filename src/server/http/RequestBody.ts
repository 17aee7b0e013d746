import { ByteSize, Context, Effect, Layer, Result } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import { BodyLimit, FieldErrorBudget, RequestBody } from "../../api/Middleware.ts"
import { InvalidRequest, PayloadTooLarge, UnsupportedMediaType } from "../../api/Problems.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import { scan } from "../../domain/json/StrictJson.ts"

/** The deepest nesting of a body. `JSON.stringify` overflows the stack at some thousands of levels. */
const MAX_DEPTH = 64

/** The most field errors that validation collects from a body, and the most positions that it checks: about 20 ms of work. */
const MAX_FAULTS = 5_000

/**
 * Reads the body of an operation and rejects input that a schema cannot check:
 *
 * - more bytes than the limit, before the rest is read;
 * - a content type other than JSON, a content encoding, or bytes that are not UTF-8;
 * - more than 64 levels of nesting;
 * - characters that PostgreSQL cannot store in a text (NUL, lone surrogates);
 * - JSON that parsers read differently: duplicate keys, and numbers that are not doubles (RFC 7493).
 *
 * The operation then reads the same bytes from memory.
 */
export const layer: Layer.Layer<RequestBody> = Layer.succeed(RequestBody, (operation, { endpoint }) => {
  // An operation without a body does not read one; a read for another purpose (the idempotency fingerprint) is limited.
  if (endpoint.payload.size === 0) {
    return Effect.provideService(operation, HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(64))
  }
  // The check applies the limit; the operation gets the same bytes from memory.
  const check = checkBody(Context.get(endpoint.annotations, BodyLimit))
  return Effect.andThen(
    check,
    Effect.suspend(() => Effect.provideService(operation, FieldErrorBudget, { count: MAX_FAULTS }))
  )
})

/** Plain functions instead of generators, because it runs for every body. */
const checkBody = (limit: ByteSize.ByteSize) => {
  const refuse = Effect.fail(
    new PayloadTooLarge({ detail: `The body exceeds the limit of ${Number(limit)} bytes.` })
  )
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request): Effect.Effect<void, Refusal> => {
    const { "content-encoding": coding, "content-type": type } = request.headers
    if (type !== undefined && !isJson(type)) return notJson
    // A proxy that decodes it would see another text than the service does.
    if (coding !== undefined && coding.toLowerCase() !== "identity") return encoded
    const length = request.headers["content-length"]
    if (Number(length ?? 0) > Number(limit)) return refuse
    const bytes = Effect.matchEffect(request.arrayBuffer, {
      onFailure: (error): Effect.Effect<never, Refusal> => (isTooLarge(error) ? refuse : unreadable),
      onSuccess: checkBytes
    })
    // Node never reads more than `content-length` bytes, so the limit is needed without the header only.
    return length === undefined ? Effect.provideService(bytes, HttpIncomingMessage.MaxBodySize, limit) : bytes
  })
}

const checkBytes = (buffer: ArrayBuffer): Effect.Effect<void, InvalidRequest> => {
  const bytes = Buffer.from(buffer)
  if (!isUtf8(bytes)) return Effect.fail(new InvalidRequest({ detail: "The body is not valid UTF-8." }))
  const scanned = scan(bytes.toString("utf8"), { maxDepth: MAX_DEPTH })
  if (Result.isSuccess(scanned)) return Effect.void
  const { pointer, detail } = scanned.failure
  return Effect.fail(new InvalidRequest({ detail, errors: redactFaults([{ pointer, detail }]) }))
}

/** Whether a content type is JSON in UTF-8. Another charset is rejected, because a proxy may decode by it. */
const isJson = (type: string): boolean =>
  /^application\/json\s*(;|$)/i.test(type) && !/;\s*charset\s*=\s*(?!"?utf-8"?\s*(?:;|$))/i.test(type)

type Refusal = InvalidRequest | PayloadTooLarge | UnsupportedMediaType

const notJson = Effect.fail(new UnsupportedMediaType({ detail: "Send application/json encoded in UTF-8." }))
const encoded = Effect.fail(
  new UnsupportedMediaType({ detail: "Content encodings are not supported. Send the body uncompressed." })
)
const unreadable = Effect.fail(new InvalidRequest({ detail: "The body could not be read." }))

const isTooLarge = (error: HttpServerError.HttpServerError): boolean =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
