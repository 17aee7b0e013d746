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
 * What is refused before there is a route: by the HTTP parser, by time, or because the routes are not there yet. Without these the
 * platform answers by itself, with a status and nothing else.
 */
const refusals = {
  starting: [Unavailable, "The service is starting; try again in a moment", { "retry-after": "1" }],
  malformed: [InvalidRequest, "This is not HTTP/1.1 as RFC 9112 has it", {}],
  host: [InvalidRequest, "Send the header Host, once, with a host in it", {}],
  coding: [InvalidRequest, "Send the body as it is, or chunked and nothing else", {}],
  slow: [RequestTimeout, "The request did not come in within the time for it", {}],
  chunks: [PayloadTooLarge, "The extensions of the body's chunks are too large", {}],
  expectation: [ExpectationFailed, "Expect nothing, or 100-continue", {}],
  headers: [HeadersTooLarge, "Send fewer or shorter headers, or a shorter path", {}],
  tunnel: [MethodNotAllowed, "This is no proxy", { allow: "GET, HEAD, POST, PUT, PATCH, DELETE" }]
} as const

/** Why a request is refused. */
export type Refusal = keyof typeof refusals

const answerTo = (refusal: Refusal) => {
  const [Problem, detail, more] = refusals[refusal]
  const request_id = `req_${uuidV7Hex()}`
  const problem = new Problem({ detail, request_id })
  const body = JSON.stringify(problem)
  const headers: Readonly<Record<string, string>> = {
    "content-type": "application/problem+json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": request_id,
    connection: "close",
    ...more
  }
  return { status: problem.status, headers, body }
}

/** Refuses a request that was read. */
export const refuse = (response: ServerResponse, refusal: Refusal): void => {
  const { body, headers, status } = answerTo(refusal)
  response.writeHead(status, headers).end(body)
}

/** Refuses what could not be read, on the bare connection, and closes it. */
export const refuseConnection = (socket: Duplex, refusal: Refusal): void => {
  // An answer that has begun only ends: what is written now would be taken for a part of it.
  if (!socket.writable || hasBegun(socket)) return void socket.destroy()
  const { body, headers, status } = answerTo(refusal)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`, () =>
    socket.destroy()
  )
}

/** Whether an answer is under way on the connection: Node keeps it there, and its own handler looks there too. */
const hasBegun = (socket: Duplex): boolean => {
  const response: unknown = Reflect.get(socket, "_httpMessage")
  return typeof response === "object" && response !== null && Reflect.get(response, "headersSent") === true
}
