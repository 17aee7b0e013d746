/** A webhook receiver as a user would write one: node:http and `countersign/webhook`, no other part of this project. */
import { createServer, type IncomingMessage, type Server } from "node:http"
import { type RawBody, type Verification, verify } from "../webhook/index.ts"

/** A received delivery with the result of its verification. */
export interface ReceivedDelivery {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The event's id and type if the delivery verified, otherwise the reason. */
  readonly verification:
    | {
        readonly ok: true
        readonly event_id: string
        readonly type: string
        /** The body of the response, if the event is a challenge that verifies the endpoint. */
        readonly answer?: { readonly challenge: string }
      }
    | { readonly ok: false; readonly reason: string; readonly message: string }
}

/** Maximum length of a body, in bytes: an event has a few hundred. */
const MAX_BODY_BYTES = 256 * 1024

/**
 * Creates an HTTP server that verifies deliveries and responds with 204 to valid, 401 to invalid and 413 to oversized
 * ones, and answers challenges. `onDelivery` is called before the response.
 */
export const makeReceiver = (options: {
  readonly secret: () => string
  readonly onDelivery: (received: ReceivedDelivery) => void
}): Server =>
  createServer((request, response) => {
    receive(request, options).then(
      ({ answer, status }) => {
        if (answer === undefined)
          response.writeHead(status, status === 413 ? { connection: "close" } : {}).end()
        else response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer))
        return undefined
      },
      () => response.writeHead(500).end()
    )
  })

/** Processes one delivery; returns the response's status and body. */
const receive = async (
  request: IncomingMessage,
  options: Parameters<typeof makeReceiver>[0]
): Promise<{ readonly status: number; readonly answer?: { readonly challenge: string } }> => {
  const body = await readBody(request)
  if (body === undefined) return { status: 413 }
  const verification = await check(body, request, options.secret())
  options.onDelivery({
    method: request.method ?? "",
    path: request.url ?? "",
    headers: flat(request.headers),
    body: body.toString("utf8"),
    verification
  })
  if (!verification.ok) return { status: 401 }
  return verification.answer === undefined ? { status: 204 } : { status: 200, answer: verification.answer }
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
    // The sender disconnected; the delivery will be retried.
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
    ? {
        ok: true,
        event_id: verification.event.id,
        type: verification.event.type,
        ...(verification.event.type === "verification" ? { answer: verification.event.verification } : {})
      }
    : { ok: false, reason: verification.reason, message: verification.message }
}

const flat = (headers: IncomingMessage["headers"]): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value ?? "")
    ])
  )
