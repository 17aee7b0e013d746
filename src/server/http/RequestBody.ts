import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { ByteSize, Context, Effect, Layer, Result } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import type { Readable } from "node:stream"
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
 * The operation then reads the same text from memory.
 */
export const layer: Layer.Layer<RequestBody> = Layer.succeed(RequestBody, (operation, { endpoint }) => {
  // An operation without a body does not read one; a read for another purpose (the idempotency fingerprint) is limited.
  if (endpoint.payload.size === 0) {
    return Effect.provideService(operation, HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(64))
  }
  const check = checkBody(Context.get(endpoint.annotations, BodyLimit))
  return Effect.andThen(
    check,
    Effect.suspend(() => Effect.provideService(operation, FieldErrorBudget, { count: MAX_FAULTS }))
  )
})

/** Plain functions instead of generators, because it runs for every body. */
const checkBody = (limit: ByteSize.ByteSize) => {
  const maxBytes = Number(limit)
  const refuse = Effect.fail(
    new PayloadTooLarge({ detail: `The body exceeds the limit of ${maxBytes} bytes.` })
  )
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request): Effect.Effect<void, Refusal> => {
    const { "content-encoding": coding, "content-type": type } = request.headers
    if (type !== undefined && !isJson(type)) return notJson
    // A proxy that decodes it would see another text than the service does.
    if (coding !== undefined && coding.toLowerCase() !== "identity") return encoded
    const length = request.headers["content-length"]
    if (Number(length ?? 0) > maxBytes) return refuse
    if (length !== undefined && request.headers["expect"] === undefined) {
      // Node never reads more than `content-length` bytes, so the limit holds.
      return Effect.flatMap(readBytes(NodeHttpServerRequest.toIncomingMessage(request)), (bytes) =>
        checkBytes(request, bytes)
      )
    }
    return Effect.matchEffect(request.arrayBuffer, {
      onFailure: (error): Effect.Effect<never, Refusal> => (isTooLarge(error) ? refuse : unreadable),
      onSuccess: (buffer) => checkBytes(request, Buffer.from(buffer))
    }).pipe(Effect.provideService(HttpIncomingMessage.MaxBodySize, limit))
  })
}

/**
 * Reads a body whose size is bounded by its `content-length`. The library's reader, which waits until the stream has closed, costs about a
 * tenth of the processor time of a small request.
 */
const readBytes = (source: Readable): Effect.Effect<Buffer, InvalidRequest> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    const stop = () => {
      source.off("data", onData).off("end", onEnd).off("error", onError).off("close", onError)
    }
    const onData = (chunk: Buffer) => void chunks.push(chunk)
    const onEnd = () => {
      stop()
      const [only] = chunks
      resume(Effect.succeed(only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks)))
    }
    const onError = () => {
      stop()
      resume(unreadable)
    }
    // A stream that was destroyed before emits nothing more.
    if (source.destroyed) return resume(unreadable)
    source.on("data", onData).on("end", onEnd).on("error", onError).on("close", onError)
    return Effect.sync(stop)
  })

const BYTE_ORDER_MARK = 0xfeff

const checkBytes = (
  request: HttpServerRequest.HttpServerRequest,
  bytes: Buffer
): Effect.Effect<void, InvalidRequest> => {
  if (!isUtf8(bytes)) return Effect.fail(new InvalidRequest({ detail: "The body is not valid UTF-8." }))
  const decoded = bytes.toString("utf8")
  const text = decoded.charCodeAt(0) === BYTE_ORDER_MARK ? decoded.slice(1) : decoded
  const scanned = scan(text, { maxDepth: MAX_DEPTH })
  if (Result.isSuccess(scanned)) {
    keepBody(request, bytes, text)
    return Effect.void
  }
  const { pointer, detail } = scanned.failure
  return Effect.fail(new InvalidRequest({ detail, errors: redactFaults([{ pointer, detail }]) }))
}

/**
 * Makes the request return this body, which was read from it. On the request itself, because the library passes the same request to the
 * decoder of the operation.
 */
const keepBody = (request: HttpServerRequest.HttpServerRequest, bytes: Buffer, text: string): void => {
  const arrayBuffer = Effect.sync(() => new Uint8Array(bytes).buffer)
  Object.defineProperty(request, "text", { value: Effect.succeed(text) })
  Object.defineProperty(request, "arrayBuffer", { value: arrayBuffer })
}

/** Whether a content type is JSON in UTF-8. Another charset is rejected, because a proxy may decode by it. */
const isJson = (type: string): boolean =>
  type === "application/json" ||
  (/^application\/json\s*(;|$)/i.test(type) && !/;\s*charset\s*=\s*(?!"?utf-8"?\s*(?:;|$))/i.test(type))

type Refusal = InvalidRequest | PayloadTooLarge | UnsupportedMediaType

const notJson = Effect.fail(new UnsupportedMediaType({ detail: "Send application/json encoded in UTF-8." }))
const encoded = Effect.fail(
  new UnsupportedMediaType({ detail: "Content encodings are not supported. Send the body uncompressed." })
)
const unreadable = Effect.fail(new InvalidRequest({ detail: "The body could not be read." }))

const isTooLarge = (error: HttpServerError.HttpServerError): boolean =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
