import { Clock, Context, Effect, Layer } from "effect"
import type { WebhookEventType } from "../../../domain/approvals/ApprovalEvent.ts"
import type { EndpointId, EventId } from "../../../domain/Ids.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { DeliveryRef } from "../../delivery/Delivery.ts"

/** How long after its transaction read the endpoints an event is handed to its first attempts, in milliseconds. */
const MAX_AGE_MILLIS = 250

/** Total size of the bodies kept, in bytes; past it the oldest are evicted. */
const MAX_BYTES = 4 * 1024 * 1024
const MAX_EVENTS = 10_000

/** An event of the transaction that queues it. */
export interface RecentEvent {
  readonly type: WebhookEventType
  /** The bytes that are signed and sent. */
  readonly body: Uint8Array
}

/** The version of an endpoint's row (`xmin`), as the transaction read it: equal versions have equal columns. */
export interface EndpointVersion {
  readonly endpoint_id: EndpointId
  readonly version: string
}

interface KeptEvent extends RecentEvent {
  readonly readAt: number
  readonly versions: Map<string, string>
}

/**
 * Hands events to the attempts that follow their commit on the same replica, together with the version of each endpoint
 * that their transaction read. An attempt that has this version in its cache need not read event and endpoint again.
 * The rows remain authoritative: every later attempt reads them, and so does a first attempt that had to wait.
 */
export class RecentEvents extends Context.Service<
  RecentEvents,
  {
    /** Keeps an event for its active endpoints. Called within its transaction; if that rolls back, no attempt asks for the event. */
    readonly keep: (
      event: RecentEvent & { readonly event_id: EventId },
      endpoints: ReadonlyArray<EndpointVersion>
    ) => void
    /** Returns the event of a delivery and its endpoint's version, once and only shortly after they were read. */
    readonly take: (ref: DeliveryRef) => (RecentEvent & { readonly version: string }) | undefined
  }
>()("countersign/server/notifications/Notifications/RecentEvents") {
  static readonly layer: Layer.Layer<RecentEvents> = Layer.effect(
    RecentEvents,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const events = new LruCache<KeptEvent>({ entries: MAX_EVENTS, weight: MAX_BYTES })
      return RecentEvents.of({
        keep: ({ body, event_id, type }, endpoints) => {
          if (endpoints.length === 0) return
          const now = monotonicMillis(clock)
          // A small body is a part of a larger buffer, which it keeps in memory as a whole.
          for (const [key, { readAt }] of events.entries()) {
            if (now - readAt <= MAX_AGE_MILLIS) break
            events.delete(key)
          }
          const versions = new Map(endpoints.map(({ endpoint_id, version }) => [endpoint_id, version]))
          events.set(event_id, { type, body, versions, readAt: now }, body.length)
        },
        take: ({ destination_id, event_id }) => {
          const event = events.get(event_id)
          const version = event?.versions.get(destination_id)
          if (event === undefined || version === undefined) return undefined
          // A replay of the same event must read its endpoint.
          event.versions.delete(destination_id)
          if (event.versions.size === 0) events.delete(event_id)
          if (monotonicMillis(clock) - event.readAt > MAX_AGE_MILLIS) return undefined
          return { type: event.type, body: event.body, version }
        }
      })
    })
  )
}
