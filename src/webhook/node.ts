import { concatBytes } from "./concatBytes.ts"
import { type BodyResult, type ReceiverOptions, receiver } from "./receiver.ts"

/** The used part of `http.IncomingMessage`, as a structural type without an import. */
export interface NodeRequest {
  readonly method?: string | undefined
  readonly headers: Readonly<Record<string, string | Array<string> | undefined>>
  readonly readableEnded: boolean
  /** The body of a raw body parser (`express.raw`), if one ran before. */
  readonly body?: unknown
  on(event: string, listener: (...args: Array<never>) => void): unknown
}

/** The used part of `http.ServerResponse`. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown
  end(body?: string): unknown
}

const readBody = (request: NodeRequest, limit: number): Promise<BodyResult> => {
  if (ArrayBuffer.isView(request.body)) {
    const { buffer, byteLength, byteOffset } = request.body
    return Promise.resolve(byteLength > limit ? "too_large" : new Uint8Array(buffer, byteOffset, byteLength))
  }
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
 * nodeHandler(options))`. Mount it before any JSON body parser.
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
    response.writeHead(result.status, { ...result.headers, ...close })
    if (result.body === null) response.end()
    else response.end(result.body)
  }
}
