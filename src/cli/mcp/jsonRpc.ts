/** Messages of JSON-RPC 2.0 as the Model Context Protocol has them: objects, one a line, never batches. */
import { Result } from "effect"
import { contentLimits, scan } from "../../domain/json/StrictJson.ts"

export type RpcId = string | number

export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

export interface RpcRequest {
  readonly kind: "request"
  readonly id: RpcId
  readonly method: string
  readonly params: unknown
}

export interface RpcNotification {
  readonly kind: "notification"
  readonly method: string
  readonly params: unknown
}

export interface RpcResponse {
  readonly kind: "response"
  readonly id: RpcId
  readonly outcome: RpcOutcome
}

/** How a request ended. */
export type RpcOutcome = { readonly result: unknown } | { readonly error: unknown }

/** A text that is no message. `id` is that of the request, if it has one. */
export interface InvalidMessage {
  readonly kind: "invalid"
  readonly id: RpcId | null
  readonly error: RpcError
}

export type RpcMessage = RpcRequest | RpcNotification | RpcResponse

/** Codes of JSON-RPC 2.0. */
export const PARSE_ERROR = -32_700
export const INVALID_REQUEST = -32_600
export const METHOD_NOT_FOUND = -32_601
export const INVALID_PARAMS = -32_602
export const INTERNAL_ERROR = -32_603
/** A code of the range for servers: the gate or its server failed. */
export const SERVER_FAILED = -32_000

export type JsonObject = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isId = (value: unknown): value is RpcId => typeof value === "string" || typeof value === "number"

const invalid = (id: unknown, code: number, message: string): InvalidMessage => ({
  kind: "invalid",
  id: isId(id) ? id : null,
  error: { code, message }
})

const classify = (value: unknown): RpcMessage | InvalidMessage => {
  if (!isObject(value))
    return invalid(null, INVALID_REQUEST, "A message must be an object; batches are not supported.")
  const { id, method, params } = value
  if (typeof method === "string") {
    if (id === undefined) return { kind: "notification", method, params }
    return isId(id)
      ? { kind: "request", id, method, params }
      : invalid(null, INVALID_REQUEST, "The id of a request must be a string or a number.")
  }
  if (!isId(id)) return invalid(null, INVALID_REQUEST, "A message must have a method or an id.")
  if (isObject(value["error"])) return { kind: "response", id, outcome: { error: value["error"] } }
  return "result" in value
    ? { kind: "response", id, outcome: { result: value["result"] } }
    : invalid(id, INVALID_REQUEST, "A response must have a result or an error.")
}

/** Names of the members of a message. */
const membersOf = (message: RpcMessage): ReadonlyArray<string> =>
  message.kind === "response" ? ["id", ...Object.keys(message.outcome)] : ["id", "method", "params"]

/** Reads JSON; undefined if it is none. */
export const parseJson = (text: string): { readonly value: unknown } | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return { value }
  } catch {
    return undefined
  }
}

/** Reads a message. */
export const parseMessage = (text: string): RpcMessage | InvalidMessage => {
  const parsed = parseJson(text)
  return parsed === undefined
    ? invalid(null, PARSE_ERROR, "The message is not JSON.")
    : classify(parsed.value)
}

/**
 * Reads a message whose requests must mean the same to every parser: no name twice, and no number that a double cannot hold. Otherwise the
 * receiver of a decision could execute another call than the one decided about.
 */
export const parseStrictMessage = (text: string): RpcMessage | InvalidMessage => {
  const message = parseMessage(text)
  if (message.kind === "invalid" || message.kind === "response") return message
  const scanned = scan(text, contentLimits)
  return Result.isFailure(scanned)
    ? invalid(
        message.kind === "request" ? message.id : null,
        INVALID_REQUEST,
        `The message cannot be passed on: ${scanned.failure.detail} (${scanned.failure.pointer}).`
      )
    : message
}

/** A message as a line of text, with the members of JSON-RPC and no others. */
export const formatMessage = (
  message:
    | { readonly id?: RpcId; readonly method: string; readonly params?: unknown }
    | { readonly id: RpcId | null; readonly result: unknown }
    | { readonly id: RpcId | null; readonly error: unknown }
): string => JSON.stringify({ jsonrpc: "2.0", ...message })

/** A parsed message as a line of text. */
export const forwardedMessage = (message: RpcMessage): string => {
  if (message.kind === "response") return formatMessage({ id: message.id, ...message.outcome })
  const { method, params } = message
  return formatMessage({
    ...(message.kind === "request" ? { id: message.id } : {}),
    method,
    ...(params === undefined ? {} : { params })
  })
}

/** A message that is passed on: as it came, since a number in it may be no double. */
export interface RelayedMessage {
  readonly message: RpcMessage | InvalidMessage
  /** Its text, on one line. */
  readonly line: string
}

/**
 * Reads a message that is passed on to a reader of lines. Members that its kind does not define are left out: a parser that ignores case would
 * take `ID` for the id of a response, and another one a request with a `result` for a response.
 */
export const parseRelayed = (text: string): RelayedMessage => {
  const parsed = parseJson(text)
  const message = parsed === undefined ? parseMessage(text) : classify(parsed.value)
  const isPlain =
    message.kind === "invalid" ||
    (isObject(parsed?.value) &&
      Object.keys(parsed.value).every((name) => name === "jsonrpc" || membersOf(message).includes(name)))
  return {
    message,
    // In JSON, line breaks are white space: those in a string are escaped.
    line: isPlain ? text.replaceAll(/[\r\n]/g, " ") : forwardedMessage(message)
  }
}
