/**
 * A receiver of notifications, as its owner would write one: node:http and `countersign/webhook`, nothing else of this project. What
 * it got is handed on to be shown.
 */
import { createServer, type IncomingMessage, type Server } from "node:http"
import { type RawBody, type Verification, verify } from "../webhook/index.ts"

/** One delivery as it came in, and what its verification said. */
export interface ReceivedDelivery {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The event's id and type where the signature held; else why it did not. */
  readonly verification:
    | { readonly ok: true; readonly event_id: string; readonly type: string }
    | { readonly ok: false; readonly reason: string; readonly message: string }
}

/** Most bytes of a body that are read: a notification has a few hundred. */
const MAX_BODY_BYTES = 256 * 1024

/**
 * An HTTP server that verifies what it gets: 204 to what holds, 401 to what does not, 413 to what is too long. `onDelivery` is called
 * before the answer leaves.
 */
export const makeReceiver = (options: {
  readonly secret: () => string
  readonly onDelivery: (received: ReceivedDelivery) => void
}): Server =>
  createServer((request, response) => {
    receive(request, options).then(
      (status) => response.writeHead(status, status === 413 ? { connection: "close" } : {}).end(),
      () => response.writeHead(500).end()
    )
  })

/** Takes one delivery in; answers with its status. */
const receive = async (
  request: IncomingMessage,
  options: Parameters<typeof makeReceiver>[0]
): Promise<number> => {
  const body = await readBody(request)
  if (body === undefined) return 413
  const verification = await check(body, request, options.secret())
  options.onDelivery({
    method: request.method ?? "",
    path: request.url ?? "",
    headers: flat(request.headers),
    body: body.toString("utf8"),
    verification
  })
  return verification.ok ? 204 : 401
}

const readBody = async (request: IncomingMessage): Promise<Buffer | undefined> => {
  const chunks: Array<Buffer> = []
  let length = 0
  try {
    for await (const chunk of request) {
      const bytes = Buffer.from(chunk)
      length += bytes.length
      if (length > MAX_BODY_BYTES) return undefined
      chunks.push(bytes)
    }
  } catch {
    // The sender went away; it will come again.
    return undefined
  }
  return Buffer.concat(chunks)
}

const check = async (
  body: RawBody,
  request: IncomingMessage,
  secret: string
): Promise<ReceivedDelivery["verification"]> => {
  const verification: Verification = await verify(body, request.headers, secret)
  return verification.ok
    ? { ok: true, event_id: verification.event.id, type: verification.event.type }
    : { ok: false, reason: verification.reason, message: verification.message }
}

const flat = (headers: IncomingMessage["headers"]): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value ?? "")
    ])
  )
