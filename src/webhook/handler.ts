import { concatBytes } from "./concatBytes.ts"
import { type BodyResult, type ReceiverOptions, receiver } from "./receiver.ts"

type Body = NonNullable<Request["body"]>

/** Reads a stream completely, or until it exceeds the limit. */
const readStream = async (stream: Body, limit: number): Promise<BodyResult> => {
  const chunks: Array<Uint8Array> = []
  let length = 0
  const reader = stream.getReader()
  try {
    for (;;) {
      const next = await reader.read()
      if (next.done) return concatBytes(chunks)
      const chunk: Uint8Array = next.value
      length += chunk.length
      if (length > limit) {
        // Not awaited: a peer that keeps its side open would delay the response.
        reader.cancel().catch(() => undefined)
        return "too_large"
      }
      chunks.push(chunk)
    }
  } catch {
    return "disconnected"
  }
}

/**
 * Creates a webhook handler for runtimes with `Request` and `Response`: Workers, Deno, Bun, Next.js, Hono, Node.
 *
 * It reads the raw body up to a limit, verifies it, checks the organization, and calls `onEvent` once per event. It responds with
 *
 * - 204: the event was handled, now or before
 * - 200 with the challenge: the event verifies the endpoint
 * - 202: the event type is unknown to this version
 * - 4xx with `{ reason, message }`: the delivery was refused
 * - 500: `onEvent` threw; the delivery will be retried
 * - 503: another process is handling the event
 *
 * ```ts
 * export default { fetch: handler({ secret, orgId, seen, onEvent: (event) => queue.save(event) }) }
 * ```
 */
export const handler = (options: ReceiverOptions): ((request: Request) => Promise<Response>) => {
  const receive = receiver(options)
  return async (request) => {
    const response = await receive({
      method: request.method,
      headers: request.headers,
      read: async (limit) => {
        if (request.bodyUsed) return "already_consumed"
        if (Number(request.headers.get("content-length") ?? 0) > limit) return "too_large"
        return request.body === null ? new Uint8Array() : readStream(request.body, limit)
      }
    })
    return new Response(response.body, { status: response.status, headers: { ...response.headers } })
  }
}
