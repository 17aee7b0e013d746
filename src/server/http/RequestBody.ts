import { ByteSize, Context, Effect, Layer, Result } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import { BodyLimit, FieldErrorBudget, RequestBody } from "../../api/Middleware.ts"
import { InvalidRequest, PayloadTooLarge, UnsupportedMediaType } from "../../api/Problems.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import { scan } from "../../domain/json/StrictJson.ts"

/** The deepest nesting of a body. `JSON.stringify` of what is stored overflows the stack at some thousands. */
const MAX_DEPTH = 64

/** Faults of a body that are gathered, and places in it where one could be: some 20 ms of work at most. */
const MAX_FAULTS = 5_000

/**
 * Reads the body of an operation that takes one, and refuses what no schema sees: too many bytes (before reading on), another type than
 * JSON, bytes that are no UTF-8, nesting over 64 levels, what the store takes in no text (NUL, lone surrogates), and what two readers
 * could read in two ways (duplicate keys, numbers that are no doubles; RFC 7493). The operation reads the same bytes again from memory.
 */
export const layer: Layer.Layer<RequestBody> = Layer.succeed(RequestBody, (operation, { endpoint }) => {
  // A body that nobody asked for is not read, and what is read all the same (a fingerprint) is bounded.
  if (endpoint.payload.size === 0) {
    return Effect.provideService(operation, HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(64))
  }
  // What was read within the limit here is what the operation is given from memory.
  const check = checkBody(Context.get(endpoint.annotations, BodyLimit))
  return Effect.andThen(
    check,
    Effect.suspend(() => Effect.provideService(operation, FieldErrorBudget, { count: MAX_FAULTS }))
  )
})

/** Plain functions instead of generators: this runs with every body. */
const checkBody = (limit: ByteSize.ByteSize) => {
  const refuse = Effect.fail(
    new PayloadTooLarge({ detail: `The body may have ${Number(limit)} bytes at most` })
  )
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request): Effect.Effect<void, Refusal> => {
    const { "content-encoding": coding, "content-type": type } = request.headers
    if (type !== undefined && !isJson(type)) return notJson
    // Who stands in front and decodes it would read another text than we do.
    if (coding !== undefined && coding.toLowerCase() !== "identity") return encoded
    const length = request.headers["content-length"]
    if (Number(length ?? 0) > Number(limit)) return refuse
    const bytes = Effect.matchEffect(request.arrayBuffer, {
      onFailure: (error): Effect.Effect<never, Refusal> => (isTooLarge(error) ? refuse : unreadable),
      onSuccess: checkBytes
    })
    // More than was announced is not read anyway.
    return length === undefined ? Effect.provideService(bytes, HttpIncomingMessage.MaxBodySize, limit) : bytes
  })
}

const checkBytes = (buffer: ArrayBuffer): Effect.Effect<void, InvalidRequest> => {
  const bytes = Buffer.from(buffer)
  if (!isUtf8(bytes)) return Effect.fail(new InvalidRequest({ detail: "The body is not UTF-8" }))
  const scanned = scan(bytes.toString("utf8"), { maxDepth: MAX_DEPTH })
  if (Result.isSuccess(scanned)) return Effect.void
  const { pointer, detail } = scanned.failure
  return Effect.fail(new InvalidRequest({ detail, errors: redactFaults([{ pointer, detail }]) }))
}

/** JSON, and in no other character set than it is read in: whoever stands in front may go by the one that is named. */
const isJson = (type: string): boolean =>
  /^application\/json\s*(;|$)/i.test(type) && !/;\s*charset\s*=\s*(?!"?utf-8"?\s*(?:;|$))/i.test(type)

type Refusal = InvalidRequest | PayloadTooLarge | UnsupportedMediaType

const notJson = Effect.fail(new UnsupportedMediaType({ detail: "Send application/json, in UTF-8" }))
const encoded = Effect.fail(
  new UnsupportedMediaType({ detail: "Send the body as it is, without a content-encoding" })
)
const unreadable = Effect.fail(new InvalidRequest({ detail: "The body could not be read" }))

const isTooLarge = (error: HttpServerError.HttpServerError): boolean =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
