import { concatBytes } from "./concatBytes.ts"
import { notify } from "./notify.ts"
import { type BodyResult, type ReceiverOptions, receiver } from "./receiver.ts"

/** The used part of `http.IncomingMessage`, as a structural type without an import. */
export interface NodeRequest {
  readonly method?: string | undefined
  readonly headers: Readonly<Record<string, string | Array<string> | undefined>>
  readonly readableEnded: boolean
  /** The bytes or the text beside a parsed body: Firebase, Cloud Functions, Nest, Next and Azure keep them here. */
  readonly rawBody?: unknown
  /** The bytes or the text of a body parser that ran before (`express.raw`, `express.text`). */
  readonly body?: unknown
  on(event: string, listener: (...args: Array<never>) => void): unknown
}

/** The used part of `http.ServerResponse`. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown
  end(body?: string): unknown
}

/** The bytes of a body that a framework has read; undefined if it has parsed it. */
const bytesOf = (body: unknown): Uint8Array | undefined => {
  if (typeof body === "string") return new TextEncoder().encode(body)
  return ArrayBuffer.isView(body) ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : undefined
}

const readBody = (request: NodeRequest, limit: number): Promise<BodyResult> => {
  const bytes = bytesOf(request.rawBody) ?? bytesOf(request.body)
  if (bytes !== undefined) return Promise.resolve(bytes.length > limit ? "too_large" : bytes)
  if (request.readableEnded) return Promise.resolve("already_consumed")
  return new Promise((resolve) => {
    const chunks: Array<Uint8Array> = []
    let length = 0
    request.on("data", (chunk: Uint8Array) => {
      length += chunk.length
      // The rest of an oversized body is discarded until the response closes the connection.
      if (length > limit) resolve("too_large")
      else chunks.push(chunk)
    })
    request.on("end", () => resolve(concatBytes(chunks)))
    request.on("error", () => resolve("disconnected"))
    // Also emitted after `end`, without an effect.
    request.on("close", () => resolve("disconnected"))
  })
}

/**
 * Creates a webhook handler for node:http, Express and similar frameworks: `createServer(nodeHandler(options))`, `app.post("/hook",
 * nodeHandler(options))`. It takes the bytes or the text of `request.rawBody` or `request.body`, and otherwise reads the request: mount it
 * before a body parser that keeps neither.
 */
export const nodeHandler = (
  options: ReceiverOptions
): ((request: NodeRequest, response: NodeResponse) => Promise<void>) => {
  const receive = receiver(options)
  return async (request, response) => {
    const result = await receive({
      method: request.method ?? "",
      headers: request.headers,
      read: (limit) => readBody(request, limit)
    })
    // The sender of a refused request may still be sending: its connection is closed.
    const close: Record<string, string> = result.status < 300 ? {} : { connection: "close" }
    try {
      response.writeHead(result.status, { ...result.headers, ...close })
      if (result.body === null) response.end()
      else response.end(result.body)
    } catch (error) {
      // The framework may have responded with a timeout before. node:http ignores this promise: a rejection would end the process.
      notify(options.onError, error)
    }
  }
}
