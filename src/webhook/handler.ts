import { concatBytes } from "./concatBytes.ts"
import { type ReadBody, type ReceiverOptions, receiver } from "./receiver.ts"

type Body = NonNullable<Request["body"]>

/** Reads a stream whole, or until it passes the limit. */
const readStream = async (stream: Body, limit: number): Promise<ReadBody> => {
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
        // Not waited for: a peer that keeps its side open would hold the answer.
        reader.cancel().catch(() => undefined)
        return "too_large"
      }
      chunks.push(chunk)
    }
  } catch {
    return "broken_off"
  }
}

/**
 * A receiver for every runtime with `Request` and `Response`: Workers, Deno, Bun, Next.js, Hono, Node.
 *
 * Reads the raw body up to a limit, verifies it, checks the organization, passes an event on once, and answers: 204
 * when the event is handled or was before, 202 when it is of a type that this version does not know, 4xx with
 * `{ reason, message }` when the delivery is refused, 500 when `onEvent` threw (it comes again), 503 while another process
 * has the event.
 *
 * ```ts
 * export default { fetch: handler({ secret, orgId, seen, onEvent: (event) => queue.save(event) }) }
 * ```
 */
export const handler = (options: ReceiverOptions): ((request: Request) => Promise<Response>) => {
  const receive = receiver(options)
  return async (request) => {
    const answer = await receive({
      method: request.method,
      headers: request.headers,
      read: async (limit) => {
        if (request.bodyUsed) return "read_before"
        if (Number(request.headers.get("content-length") ?? 0) > limit) return "too_large"
        return request.body === null ? new Uint8Array() : readStream(request.body, limit)
      }
    })
    return new Response(answer.body, { status: answer.status, headers: { ...answer.headers } })
  }
}
