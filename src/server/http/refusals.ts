import { type ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import {
  ExpectationFailed,
  HeadersTooLarge,
  InvalidRequest,
  MethodNotAllowed,
  PayloadTooLarge,
  RequestTimeout,
  Unavailable
} from "../../api/Problems.ts"
import { uuidV7Hex } from "../../domain/Ids.ts"

/**
 * The problems of requests that are refused before routing: by the HTTP parser, by a time-out, because too many wait, or
 * because the service is still starting. Node would answer them with a status and no body.
 */
const refusals = {
  starting: [Unavailable, "The service is starting; retry shortly.", { "retry-after": "1" }],
  connections: [
    Unavailable,
    "Too many connections. Close idle ones, or retry shortly.",
    { "retry-after": "1" }
  ],
  waiting: [
    Unavailable,
    "Too many requests of this client wait to be started. Send fewer at once, or retry shortly.",
    { "retry-after": "1" }
  ],
  malformed: [InvalidRequest, "Malformed HTTP/1.1 request (RFC 9112).", {}],
  host: [InvalidRequest, "Send exactly one Host header with a valid host.", {}],
  authorization: [InvalidRequest, "Send only one Authorization header.", {}],
  coding: [InvalidRequest, "Transfer encodings other than chunked are not supported.", {}],
  slow: [RequestTimeout, "The request was not received in time.", {}],
  chunks: [PayloadTooLarge, "The chunk extensions of the body are too large.", {}],
  expectation: [ExpectationFailed, "Only Expect: 100-continue is supported.", {}],
  headers: [HeadersTooLarge, "Send fewer or shorter headers, or a shorter path.", {}],
  tunnel: [
    MethodNotAllowed,
    "CONNECT is not supported: this server is not a proxy.",
    { allow: "GET, HEAD, POST, PUT, PATCH, DELETE" }
  ]
} as const

/** Why a request is refused. */
export type Refusal = keyof typeof refusals

const responseFor = (refusal: Refusal) => {
  const [Problem, detail, extraHeaders] = refusals[refusal]
  const request_id = `req_${uuidV7Hex()}`
  const problem = new Problem({ detail, request_id })
  const body = JSON.stringify(problem)
  const headers: Readonly<Record<string, string>> = {
    "content-type": "application/problem+json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": request_id,
    connection: "close",
    ...extraHeaders
  }
  return { status: problem.status, headers, body }
}

/** Answers a parsed request with a refusal. */
export const refuse = (response: ServerResponse, refusal: Refusal): void => {
  const { body, headers, status } = responseFor(refusal)
  response.writeHead(status, headers).end(body)
}

/** Answers an unparsable request with a refusal, on the bare connection, and closes it. */
export const refuseConnection = (socket: Duplex, refusal: Refusal): void => {
  // Node does not listen on a connection that it has handed over, or was never given: a reset would end the process.
  socket.on("error", () => undefined)
  // If a response has begun, the client would read anything written now as part of it.
  if (!socket.writable || hasBegunResponse(socket)) return void socket.destroy()
  const { body, headers, status } = responseFor(refusal)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`, () =>
    socket.destroy()
  )
}

/** Whether a response has begun on the connection. Node's own `clientError` handler reads the same undocumented property. */
const hasBegunResponse = (socket: Duplex): boolean => {
  const response: unknown = Reflect.get(socket, "_httpMessage")
  return typeof response === "object" && response !== null && Reflect.get(response, "headersSent") === true
}
