import { Context, Effect, Layer } from "effect"

/** Bytes that are kept at most; past it the oldest go. What nobody takes was sent by another process. */
const MAX_BYTES = 4 * 1024 * 1024

/**
 * Requests that this process has just written, for the attempt that follows where it follows here: it need not read back nor open what was
 * in memory a moment ago. The rows stay the truth: whether a batch is sent goes by them, and so does every later attempt.
 */
export class RecentPayloads extends Context.Service<
  RecentPayloads,
  {
    /** Keeps the request of a batch whose row is committed. */
    readonly keep: (batch_id: string, request: Uint8Array) => void
    /** The request, if it is here; once. */
    readonly take: (batch_id: string) => Uint8Array | undefined
  }
>()("countersign/server/telemetry/Spans/RecentPayloads/WrittenBatches") {
  static readonly layer: Layer.Layer<RecentPayloads> = Layer.effect(
    RecentPayloads,
    Effect.sync(() => {
      const kept = new Map<string, Uint8Array>()
      let bytes = 0

      const take = (batch_id: string): Uint8Array | undefined => {
        const request = kept.get(batch_id)
        if (request === undefined) return undefined
        kept.delete(batch_id)
        bytes -= request.length
        return request
      }

      return RecentPayloads.of({
        keep: (batch_id, request) => {
          kept.set(batch_id, request)
          bytes += request.length
          for (const oldest of kept.keys()) {
            if (bytes <= MAX_BYTES) break
            take(oldest)
          }
        },
        take
      })
    })
  )
}
