import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Array as Arr, ByteSize, Context, Effect, Layer } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest } from "effect/http"
import type { Readable } from "node:stream"
import { CurrentPrincipal, scopesOf } from "../../api/Authorization.ts"
import { BodyLimit, FieldErrorBudget, RequestBody } from "../../api/Middleware.ts"
import { InvalidRequest, PayloadTooLarge, RateLimited, UnsupportedMediaType } from "../../api/Problems.ts"
import { describeFirst } from "../../domain/describeIssue.ts"
import type { Scope } from "../../domain/identity/Scope.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import { formatPointer } from "../../domain/tasks/CompiledSchema/SchemaFault.ts"
import { makeKeyedSemaphore } from "../admission/KeyedSemaphore.ts"
import { inTurns, LoopTurns } from "../admission/LoopTurns.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { ClientAddress } from "./ClientAddress.ts"
import { ifStillAuthenticated } from "./CurrentCaller.ts"
import { insufficientScope } from "./insufficientScope.ts"
import { addressKey } from "../admission/Connections.ts"
import { problemResponse } from "./problemResponse.ts"
import { checkAtOnce, checkInTurns } from "./RequestBody/checkContent.ts"
import { WorkLimits } from "../admission/WorkLimits.ts"

/** Bytes above which a request is large: it waits for its organization's next turn between the steps of its work. */
const LARGE_BODY = 64 * 1024

/**
 * Bytes of large bodies in progress for requests without an API key or console session, instead of an organization's:
 * of one address, and of all addresses. A slow sender keeps its bytes until its connection is cut, so one address must
 * not be able to use up the bytes of all addresses.
 */
const MAX_ANONYMOUS_BYTES_PER_ADDRESS = 4 * 2 ** 20
const MAX_ANONYMOUS_BYTES = 32 * 2 ** 20

/** The most field errors that validation collects from a body, and the most positions that it checks: about 20 ms of work. */
const MAX_FAULTS = 5_000

/** The most unknown query parameters that a problem lists. */
const MAX_UNKNOWN = 20

/**
 * Reads the body of an operation, once the key is known to have the scope of the operation, and rejects input that a schema cannot check:
 *
 * - query parameters and a body of operations that have none;
 *
 * - more bytes than the limit, before the rest is read;
 * - a content type other than JSON, a content encoding, or bytes that are not UTF-8;
 * - more than 64 levels of nesting, 100,000 values or 20,000 different names, before they are parsed;
 * - characters that PostgreSQL cannot store in a text (NUL, lone surrogates);
 * - JSON that parsers read differently: duplicate keys, and numbers that are not doubles (RFC 7493).
 *
 * The operation then reads the same text from memory.
 */
export const layer: Layer.Layer<RequestBody, never, ClientAddress | LimitUse | WorkLimits> = Layer.effect(
  RequestBody,
  Effect.gen(function* () {
    const turns = yield* LoopTurns
    const client = yield* ClientAddress
    const use = yield* LimitUse
    // A body takes about six times its size in memory.
    const { largeBodyBytes } = yield* WorkLimits
    const semaphoreOf = (permits: number, refusal: Effect.Effect<never, RateLimited>) =>
      makeKeyedSemaphore({
        permits,
        onTimeout: Effect.suspend(() => {
          use.refused("large_bodies")
          return refusal
        })
      })
    const withLargeBytes = semaphoreOf(largeBodyBytes, tooManyLarge(largeBodyBytes))
    const withAddressBytes = semaphoreOf(MAX_ANONYMOUS_BYTES_PER_ADDRESS, tooManyOfAddress)
    const withAnonymousBytes = semaphoreOf(MAX_ANONYMOUS_BYTES, tooManyAnonymous)
    const withAnonymous = (address: string, bytes: number) => {
      const ofAddress = withAddressBytes(address, bytes)
      const ofAll = withAnonymousBytes("all", bytes)
      return <A, E, R>(run: Effect.Effect<A, E, R>) => ofAddress(ofAll(run))
    }
    return RequestBody.of((unchecked, { endpoint }) => {
      const operation = ifStillAuthenticated(unchecked)
      const required = requiredScopes(endpoint)
      const hasBody = endpoint.payload.size > 0
      const limit = Context.get(endpoint.annotations, BodyLimit)
      const read = readBody(limit)
      const budgeted = Effect.suspend(() =>
        Effect.provideService(operation, FieldErrorBudget, { count: MAX_FAULTS })
      )
      return Effect.withFiber((fiber) => {
        const principal = Context.getOrUndefined(fiber.context, CurrentPrincipal)
        // The scope's own middleware, which the types rely on, runs after this one. A caller without the scope costs nothing but this.
        if (
          principal !== undefined &&
          Arr.isReadonlyArrayNonEmpty(required) &&
          !required.some((scope) => principal.scopes.has(scope))
        ) {
          return problemResponse(insufficientScope(required))
        }
        if (endpoint.query === undefined) {
          const names = Object.keys(Context.getUnsafe(fiber.context, HttpServerRequest.ParsedSearchParams))
          if (names.length > 0) return problemResponse(unknownParameters(names))
        }
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        if (!hasBody) {
          return declaredBytes(request) === 0 ? operation : Effect.andThen(refuseContent, operation)
        }
        const owner = principal?.org_id ?? addressKey(client.of(request))
        const run = Effect.flatMap(read, (bytes) =>
          bytes.length > LARGE_BODY
            ? inTurns(turns.take(owner))(Effect.andThen(checkInTurns(request, bytes), budgeted))
            : Effect.andThen(checkAtOnce(request, bytes), budgeted)
        )
        const bytes = Math.min(declaredBytes(request), Number(limit))
        if (bytes <= LARGE_BODY) return run
        return principal === undefined ? withAnonymous(owner, bytes)(run) : withLargeBytes(owner, bytes)(run)
      })
    })
  })
)

/** The problem for query parameters of an operation that has none. */
const unknownParameters = (names: ReadonlyArray<string>): InvalidRequest => {
  const faults = names.slice(0, MAX_UNKNOWN).map((name) => ({
    pointer: formatPointer("#", [name]),
    detail: "Is not a parameter: this operation has none"
  }))
  const errors = redactFaults(faults)
  return new InvalidRequest({ detail: `The query is invalid: ${describeFirst(errors)}`, errors })
}

/** Refuses content that is sent to an operation without a body: it would be ignored without notice. An empty object is accepted. */
const refuseContent = Effect.gen(function* () {
  const request = yield* HttpServerRequest.HttpServerRequest
  const text = yield* Effect.orElseSucceed(request.text, () => undefined)
  if (text === undefined || !/^\s*(?:\{\s*\}\s*)?$/.test(text)) {
    return yield* new InvalidRequest({ detail: "This operation has no body. Send the request without one." })
  }
}).pipe(Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(1)))

/** The size of a body according to its headers; infinite if they do not say. */
const declaredBytes = ({ headers }: HttpServerRequest.HttpServerRequest): number => {
  const length = headers["content-length"]
  if (length !== undefined) return Number(length)
  return headers["transfer-encoding"] === undefined ? 0 : Number.POSITIVE_INFINITY
}

const tooManyLarge = (limit: number) =>
  Effect.fail(
    new RateLimited({
      detail: `This organization has ${limit} bytes of large bodies in progress, and this one waited 5 s. Send fewer at once.`,
      retry_after_seconds: 1
    })
  )

const tooManyOfAddress = Effect.fail(
  new RateLimited({
    detail: `Your address has ${MAX_ANONYMOUS_BYTES_PER_ADDRESS} bytes of large bodies in progress, and this one waited 5 s. Send fewer at once.`,
    retry_after_seconds: 1
  })
)

const tooManyAnonymous = Effect.fail(
  new RateLimited({
    detail:
      "Too many large requests without an API key are in progress, and this one waited 5 s. Retry shortly.",
    retry_after_seconds: 1
  })
)

/** The scopes of an operation: any one suffices; none if it has no scope of its own, like signing in. */
const requiredScopes = (endpoint: {
  readonly middlewares: ReadonlySet<{ readonly key: string }>
}): ReadonlyArray<Scope> => Array.from(endpoint.middlewares).flatMap(({ key }) => scopesOf(key))

/** Plain functions instead of generators, because it runs for every body. */
const readBody = (limit: ByteSize.ByteSize) => {
  const maxBytes = Number(limit)
  const refuse = Effect.fail(
    new PayloadTooLarge({ detail: `The body exceeds the limit of ${maxBytes} bytes.` })
  )
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request): Effect.Effect<Buffer, Refusal> => {
    const { "content-encoding": coding, "content-type": type } = request.headers
    if (type !== undefined && !isJson(type)) return notJson
    // A proxy that decodes it would see another text than the service does.
    if (coding !== undefined && coding.toLowerCase() !== "identity") return encoded
    const length = request.headers["content-length"]
    if (Number(length ?? 0) > maxBytes) return refuse
    if (length !== undefined && request.headers["expect"] === undefined) {
      // Node never reads more than `content-length` bytes, so the limit holds.
      return readBytes(NodeHttpServerRequest.toIncomingMessage(request))
    }
    return Effect.matchEffect(request.arrayBuffer, {
      onFailure: (error): Effect.Effect<never, Refusal> => (isTooLarge(error) ? refuse : unreadable),
      onSuccess: (buffer) => Effect.succeed(Buffer.from(buffer))
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

/** Whether a content type is JSON in UTF-8. Another charset is rejected, because a proxy may decode by it. */
const isJson = (type: string): boolean =>
  type === "application/json" ||
  (/^application\/json\s*(;|$)/i.test(type) && !/;\s*charset\s*=\s*(?!"?utf-8"?\s*(?:;|$))/i.test(type))

type Refusal = InvalidRequest | PayloadTooLarge | UnsupportedMediaType

const notJson = Effect.fail(
  new UnsupportedMediaType({
    detail:
      "Send JSON encoded in UTF-8, with the header `content-type: application/json`: forms and `curl -d` send another one by default."
  })
)
const encoded = Effect.fail(
  new UnsupportedMediaType({ detail: "Content encodings are not supported. Send the body uncompressed." })
)
const unreadable = Effect.fail(new InvalidRequest({ detail: "The body could not be read." }))

const isTooLarge = (error: HttpServerError.HttpServerError): boolean =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
