/** Calls one operation: builds its request from the input, and its result from the response. */
import type { ClientError } from "../ClientError.ts"
import { type FailedRequest, reasonOf, ServiceUnreachable, TIMEOUT } from "../ServiceUnreachable.ts"
import { UnexpectedResponse } from "../UnexpectedResponse.ts"
import type { CallOptions } from "./CallOptions.ts"
import { type CallResponse, readRateLimits } from "./CallPromise.ts"
import { toMillis } from "./Duration.ts"
import { problemShapes } from "./generated/operationTable.ts"
import { ProblemError } from "./Problem.ts"
import { newIdempotencyKey } from "./idempotencyKey.ts"
import { readLines } from "./readLines.ts"
import { type Connection, header, type OutgoingRequest, send } from "./send.ts"
import {
  type Fields,
  fieldsFromWire,
  fromWire,
  Mismatch,
  type OperationEntry,
  refuseUnknown,
  toWire
} from "./shape.ts"
import { linkSignals } from "./wait.ts"

/** The input of a call: `params`, `query`, `headers` and `payload`. */
export type CallInput = Readonly<Record<string, unknown>>

/** Timeout and retries of a call that does not set its own. */
export interface CallDefaults {
  /** In milliseconds. */
  readonly timeout: number
  readonly retries: number
}

/** Sends a call; resolves with its result as the table describes it, times as `Date`. */
export const call = async (
  connection: Connection,
  operation: string,
  entry: OperationEntry,
  input: CallInput,
  options: CallOptions,
  defaults: CallDefaults
): Promise<CallResponse<unknown>> => {
  const { signal, unlink } = linkSignals(connection.closing.during(operation), options.signal)
  let isStreaming = false
  try {
    signal.throwIfAborted()
    const request = buildRequest(connection, operation, entry, input, options, defaults)
    const response = await send(connection, request, signal)
    if (response.status !== entry.status) throw await failureOf(response, request, signal)
    const result = (value: unknown): CallResponse<unknown> => ({
      result: value,
      status: response.status,
      request_id: header(response, "x-request-id"),
      rate_limits: readRateLimits(response.headers.get("ratelimit")),
      headers: response.headers
    })
    const { json, lines } = entry
    if (lines !== undefined) {
      isStreaming = true
      return result(readLines(response, request, lines, signal, unlink))
    }
    const text = await readText(response, request, signal)
    if (json === undefined) return result(undefined)
    const body = parse(response, request, text)
    return result(decode(response, request, () => fromWire(json, body)))
  } finally {
    if (!isStreaming) unlink()
  }
}

/** Builds a request. Throws `INVALID_REQUEST` for input that cannot be sent or that does not have the types of the operation. */
export const buildRequest = (
  connection: Connection,
  operation: string,
  entry: OperationEntry,
  input: CallInput,
  options: CallOptions,
  defaults: CallDefaults
): OutgoingRequest => {
  const parts = (["params", "query", "headers", "payload"] as const).filter(
    (name) => entry[name] !== undefined
  )
  checked(operation, "", () => refuseUnknown(parts, input, "#"))
  const part = (name: "params" | "query" | "headers") => {
    const shape = entry[name]
    return shape === undefined ? [] : texts(checked(operation, name, () => toWire(shape, input[name] ?? {})))
  }
  let path = entry.path
  for (const [name, value] of part("params")) {
    // An URL drops these segments even if they are encoded.
    if (value === "" || value === "." || value === "..") {
      throw invalidInput(operation, "params", new Mismatch(`#/${name}`, "Cannot be part of a path"))
    }
    path = path.replace(`:${name}`, () => encodeSegment(operation, name, value))
  }
  const url = new URL(connection.url + path)
  for (const [name, value] of part("query")) url.searchParams.append(name, value)
  const headers: Record<string, string> = {}
  const key = entry.idempotent === true ? newIdempotencyKey() : undefined
  if (key !== undefined) headers["idempotency-key"] = key
  for (const [name, value] of [...Object.entries(options.headers ?? {}), ...part("headers")]) {
    // `fetch` would fail with an error that quotes the header.
    if (!/^[\w-]+$/.test(name) || !/^[\x20-\x7e]*$/.test(value)) {
      throw invalidInput(operation, "headers", new Mismatch(`#/${name}`, "Expected visible ASCII characters"))
    }
    headers[name.toLowerCase()] = value
  }
  const request = {
    operation,
    method: entry.method,
    url,
    headers,
    timeout: options.timeout === undefined ? defaults.timeout : toMillis(options.timeout),
    retries: options.retries ?? defaults.retries
  }
  const { payload: shape } = entry
  if (shape === undefined) return request
  const body = JSON.stringify(checked(operation, "payload", () => toWire(shape, input["payload"] ?? {})))
  return { ...request, headers: { ...headers, "content-type": "application/json" }, body }
}

/** The members of a part that has been converted, as text; an object as JSON. */
const texts = (part: unknown): ReadonlyArray<readonly [name: string, text: string]> =>
  typeof part === "object" && part !== null
    ? Object.entries(part).map(([name, value]) => [
        name,
        typeof value === "object" && value !== null ? JSON.stringify(value) : String(value)
      ])
    : []

const encodeSegment = (operation: string, name: string, value: string): string => {
  try {
    return encodeURIComponent(value)
  } catch {
    throw invalidInput(operation, "params", new Mismatch(`#/${name}`, "Contains half of a surrogate pair"))
  }
}

/** Runs a conversion of a part of the input. */
const checked = <A>(operation: string, part: string, convert: () => A): A => {
  try {
    return convert()
  } catch (error) {
    throw error instanceof Mismatch ? invalidInput(operation, part, error) : error
  }
}

/** The problem for input that is refused before it is sent. It has the service's code for a malformed request, and no request ID. */
const invalidInput = (operation: string, part: string, { detail, pointer }: Mismatch) => {
  const place = pointer === "#" ? part : `${part}${pointer.slice(1)}`
  return new ProblemError(
    "INVALID_REQUEST",
    {
      type: "urn:problem-type:countersign:INVALID_REQUEST",
      title: "Invalid request",
      status: 400,
      detail: `${operation}: the input ${place} is invalid: ${detail}${detail.endsWith("?") ? "" : "."} Nothing was sent.`,
      errors: [{ pointer, detail }]
    },
    operation
  )
}

/** Reads a body, for as long as the response headers may take. */
const readText = async (
  response: Response,
  request: OutgoingRequest,
  signal: AbortSignal
): Promise<string> => {
  const reader = response.body?.getReader()
  if (reader === undefined) return ""
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    // Canceling ends a pending read.
    void reader.cancel().catch(() => undefined)
  }, request.timeout)
  const decoder = new TextDecoder()
  let text = ""
  try {
    for (let isDone = false; !isDone;) {
      const { done, value } = await reader.read()
      text += decoder.decode(value, { stream: !done })
      isDone = done
    }
  } catch (failure) {
    signal.throwIfAborted()
    throw new ServiceUnreachable(request, reasonOf(failure))
  } finally {
    clearTimeout(timer)
  }
  if (isLate) {
    throw new ServiceUnreachable(request, TIMEOUT, `no whole response within ${request.timeout / 1_000} s`)
  }
  return text
}

const parse = ({ status }: Response, request: FailedRequest, text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new UnexpectedResponse(request, status, "the body is not JSON")
  }
}

/** Runs a conversion of a response's body. */
const decode = <A>({ status }: Response, request: FailedRequest, convert: () => A): A => {
  try {
    return convert()
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error
    const { detail, pointer } = error
    throw new UnexpectedResponse(request, status, `the body does not match the API at ${pointer}: ${detail}`)
  }
}

/** The members of every problem. */
const problemFields: Fields = {
  type: "string",
  title: "string",
  status: "number",
  "detail?": "string",
  code: "string",
  "request_id?": "string",
  "errors?": ["list", { pointer: "string", detail: "string" }]
}

/** Returns the error for a response that is not the operation's success: the service's problem, if it is one. */
export const failureOf = async (
  response: Response,
  request: OutgoingRequest,
  signal: AbortSignal
): Promise<ClientError> => {
  const { status } = response
  const isProblem = header(response, "content-type")?.startsWith("application/problem+json") === true
  const text = await readText(response, request, signal)
  if (!isProblem) {
    const isRedirect = status === 0 || (status >= 300 && status < 400)
    return new UnexpectedResponse(
      request,
      status,
      isRedirect ? "redirects are not followed" : "not of this API"
    )
  }
  const body = parse(response, request, text)
  const code: unknown = typeof body === "object" && body !== null ? Reflect.get(body, "code") : undefined
  if (typeof code !== "string" || !Object.hasOwn(problemShapes, code)) {
    return new UnexpectedResponse(request, status, "a problem with a code that this client does not know")
  }
  const members = decode(response, request, () =>
    fieldsFromWire({ ...problemFields, ...problemShapes[code] }, body)
  )
  return new ProblemError(code, members, request.operation)
}
