import { ByteSize, Context, Effect, Layer, Result } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest } from "effect/http"
import { BodyLimit, RequestBody } from "../api/Frame.ts"
import { InvalidRequest, PayloadTooLarge, UnsupportedMediaType } from "../api/Problems.ts"
import { scanStrict } from "../domain/StrictJson.ts"

/** The deepest nesting of a body. `JSON.stringify` of what is stored overflows the stack at some thousands. */
const MAX_DEPTH = 64

const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Reads the body of an operation that takes one, and refuses what no schema sees: too many bytes (before reading on), another
 * type than JSON, bytes that are no UTF-8, nesting over 64 levels, what the store takes in no text (NUL, lone surrogates), and what two readers could read in two ways
 * (duplicate keys, numbers that are no doubles; RFC 7493). The operation
 * reads the same bytes again from memory.
 */
export const layer: Layer.Layer<RequestBody> = Layer.succeed(RequestBody, (operation, { endpoint }) => {
  // A body that nobody asked for is not read, and what is read all the same (a fingerprint) is bounded.
  if (endpoint.payload.size === 0) {
    return Effect.provideService(operation, HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(64))
  }
  // What was read within the limit here is what the operation is given from memory.
  return Effect.andThen(checkBody(Context.get(endpoint.annotations, BodyLimit)), operation)
})

const checkBody = (limit: ByteSize.ByteSize) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const type = request.headers["content-type"]
    if (type !== undefined && !/^application\/json\s*(;|$)/i.test(type)) {
      return yield* new UnsupportedMediaType({ detail: "Send application/json" })
    }
    if (Number(request.headers["content-length"] ?? 0) > Number(limit)) return yield* tooLarge(limit)
    const bytes = yield* request.arrayBuffer.pipe(
      Effect.catch((error) =>
        Effect.fail(
          isTooLarge(error) ? tooLarge(limit) : new InvalidRequest({ detail: "The body could not be read" })
        )
      )
    )
    const text = yield* Effect.try({
      try: () => utf8.decode(bytes),
      catch: () => new InvalidRequest({ detail: "The body is not UTF-8" })
    })
    const scanned = scanStrict(text, { maxDepth: MAX_DEPTH })
    if (Result.isFailure(scanned)) {
      const { pointer, detail } = scanned.failure
      return yield* new InvalidRequest({ detail, errors: [{ pointer, detail }] })
    }
  }).pipe(Effect.provideService(HttpIncomingMessage.MaxBodySize, limit))

const isTooLarge = (error: HttpServerError.HttpServerError): boolean =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"

const tooLarge = (limit: ByteSize.ByteSize) =>
  new PayloadTooLarge({ detail: `The body may have ${Number(limit)} bytes at most` })
