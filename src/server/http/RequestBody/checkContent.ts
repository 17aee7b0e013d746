import { Effect, Result } from "effect"
import type { HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import { InvalidRequest, PayloadTooLarge } from "../../../api/Problems.ts"
import { describeFirst } from "../../../domain/describeIssue.ts"
import { contentLimits, type JsonFault, scan, startScan } from "../../../domain/json/StrictJson.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"

/** The deepest nesting of a body. `JSON.stringify` overflows the stack at some thousands of levels. */
const MAX_DEPTH = 64

const SCAN_OPTIONS = { ...contentLimits, maxDepth: MAX_DEPTH }

/** Tokens of a large body that are scanned per turn: at most some 3 ms. */
const TOKENS_PER_TURN = 4 * 1024

const BYTE_ORDER_MARK = 0xfeff

/** The text of a body; undefined if it is not UTF-8. */
const textOf = (bytes: Buffer): string | undefined => {
  if (!isUtf8(bytes)) return undefined
  const decoded = bytes.toString("utf8")
  return decoded.charCodeAt(0) === BYTE_ORDER_MARK ? decoded.slice(1) : decoded
}

/** Checks a small body, and makes the request return its text. */
export const checkAtOnce = (
  request: HttpServerRequest.HttpServerRequest,
  bytes: Buffer
): Effect.Effect<void, ContentRefusal> => {
  const text = textOf(bytes)
  if (text === undefined) return notUtf8
  const scanned = scan(text, SCAN_OPTIONS)
  return Result.isSuccess(scanned) ? keepBody(request, bytes, text) : refuseContent(scanned.failure)
}

/** Checks a large body in turns, and makes the request return its text. The last turn is for the decoder of the operation. */
export const checkInTurns = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  bytes: Buffer
) {
  yield* nextTurn
  const text = textOf(bytes)
  if (text === undefined) return yield* notUtf8
  const scan = startScan(text, SCAN_OPTIONS)
  for (;;) {
    yield* nextTurn
    const scanned = scan.advance(TOKENS_PER_TURN)
    if (scanned === undefined) continue
    if (Result.isFailure(scanned)) return yield* refuseContent(scanned.failure)
    yield* keepBody(request, bytes, text)
    return yield* nextTurn
  }
})

const refuseContent = ({ detail, pointer, problem }: JsonFault): Effect.Effect<never, ContentRefusal> => {
  const errors = redactFaults([{ pointer, detail }])
  switch (problem) {
    case "too_many_values":
      return Effect.fail(new PayloadTooLarge({ detail: tooManyValues, errors }))
    case "too_many_names":
      return Effect.fail(new PayloadTooLarge({ detail: tooManyNames, errors }))
    default:
      return Effect.fail(
        new InvalidRequest({ detail: `The body is invalid: ${describeFirst(errors)}`, errors })
      )
  }
}

const tooManyValues = `The body has more than ${contentLimits.maxValues} values. Send less in one request.`
const tooManyNames = `The body has more than ${contentLimits.maxNames} different member names. Send a list of records instead of an object with a name per record.`

/**
 * Makes the request return this body, which was read from it. On the request itself, because the library passes the same request to the
 * decoder of the operation.
 */
const keepBody = (
  request: HttpServerRequest.HttpServerRequest,
  bytes: Buffer,
  text: string
): Effect.Effect<void> => {
  const arrayBuffer = Effect.sync(() => new Uint8Array(bytes).buffer)
  Object.defineProperty(request, "text", { value: Effect.succeed(text) })
  Object.defineProperty(request, "arrayBuffer", { value: arrayBuffer })
  return Effect.void
}

type ContentRefusal = InvalidRequest | PayloadTooLarge

const notUtf8 = Effect.fail(new InvalidRequest({ detail: "The body is not valid UTF-8." }))
