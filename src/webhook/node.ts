import { concatBytes } from "./concatBytes.ts"
import { type ReadBody, type ReceiverOptions, receiver } from "./receiver.ts"

/** What is needed of an `http.IncomingMessage`, by its shape: nothing is imported. */
export interface NodeRequest {
  readonly method?: string | undefined
  readonly headers: Readonly<Record<string, string | Array<string> | undefined>>
  readonly readableEnded: boolean
  /** What a raw body parser (`express.raw`) may have left: its bytes are taken. */
  readonly body?: unknown
  on(event: string, listener: (...args: Array<never>) => void): unknown
}

/** What is needed of an `http.ServerResponse`. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown
  end(body?: string): unknown
}

const read = (request: NodeRequest, limit: number): Promise<ReadBody> => {
  if (ArrayBuffer.isView(request.body)) {
    const { buffer, byteLength, byteOffset } = request.body
    return Promise.resolve(byteLength > limit ? "too_large" : new Uint8Array(buffer, byteOffset, byteLength))
  }
  if (request.readableEnded) return Promise.resolve("read_before")
  return new Promise((resolve) => {
    const chunks: Array<Uint8Array> = []
    let length = 0
    request.on("data", (chunk: Uint8Array) => {
      length += chunk.length
      // Past the limit the rest runs through unkept, until the answer closes the connection.
      if (length > limit) resolve("too_large")
      else chunks.push(chunk)
    })
    request.on("end", () => resolve(concatBytes(chunks)))
    request.on("error", () => resolve("broken_off"))
    // Also comes after an end, and then changes nothing.
    request.on("close", () => resolve("broken_off"))
  })
}

/**
 * The same receiver as a listener for node:http, and for Express and its kin: `createServer(nodeHandler(options))`,
 * `app.post("/hook", nodeHandler(options))`. It must see the body before a JSON parser does.
 */
export const nodeHandler = (
  options: ReceiverOptions
): ((request: NodeRequest, response: NodeResponse) => Promise<void>) => {
  const receive = receiver(options)
  return async (request, response) => {
    const answer = await receive({
      method: request.method ?? "",
      headers: request.headers,
      read: (limit) => read(request, limit)
    })
    // A refused request may still be sending: its connection is not kept.
    const close: Record<string, string> = answer.status < 300 ? {} : { connection: "close" }
    response.writeHead(answer.status, { ...answer.headers, ...close })
    if (answer.body === null) response.end()
    else response.end(answer.body)
  }
}
