import { Context, Effect, Layer } from "effect"
import { LruCache } from "../../concurrency/LruCache.ts"

/**
 * Total size of the cached requests, in bytes; beyond it the oldest are evicted. A request that is never taken was sent
 * by another replica.
 */
const MAX_BYTES = 4 * 1024 * 1024

/** A request as this replica stored it. */
export interface RecentPayload {
  readonly request: Uint8Array
  /** The transaction that wrote the row (`xmin`). A row that was changed since, because spans were erased, has another. */
  readonly version: string
}

/**
 * Caches requests that this replica has just stored, for the attempt that usually follows on the same replica: it need
 * not read and unseal bytes that were in memory a moment ago. The rows remain authoritative: whether a batch is sent
 * depends on them, later attempts read them, and a row with another version is read instead.
 */
export class RecentPayloads extends Context.Service<
  RecentPayloads,
  {
    /** Caches the request of a batch whose row is committed. */
    readonly keep: (batch_id: string, payload: RecentPayload) => void
    /** Removes and returns the request, if it is cached. */
    readonly take: (batch_id: string) => RecentPayload | undefined
  }
>()("countersign/server/telemetry/Spans/RecentPayloads") {
  static readonly layer: Layer.Layer<RecentPayloads> = Layer.effect(
    RecentPayloads,
    Effect.sync(() => {
      const requests = new LruCache<RecentPayload>({ entries: Infinity, weight: MAX_BYTES })
      return RecentPayloads.of({
        keep: (batch_id, payload) => requests.set(batch_id, payload, payload.request.length),
        take: (batch_id) => requests.delete(batch_id)
      })
    })
  )
}
