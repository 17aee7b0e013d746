import { type NotificationEvent, readEvent } from "./event.ts"
import { notify } from "./notify.ts"
import type { Refusal } from "./refusal.ts"
import { type EventClaims, handleOnce, type SeenEvents } from "./seen.ts"

/** A page of `GET /v1/events`, as the API returns it. */
export interface ListedEvents {
  readonly events: ReadonlyArray<unknown>
  readonly next_cursor: string
  readonly has_more: boolean
}

/** Options of {@link catchUp}. */
export interface CatchUpOptions {
  /** Requests the page after a cursor: `(cursor) => client.events.list({ query: { cursor } })`. Undefined: from the oldest event. */
  readonly list: (cursor: string | undefined) => PromiseLike<ListedEvents>
  /** The cursor that was last passed to `onCursor`. Absent: from the oldest event that the service has. */
  readonly cursor?: string | undefined
  /** Stores the cursor, once every event before it is handled. */
  readonly onCursor: (cursor: string) => unknown
  /**
   * The record of handled events, the same object as the webhook handler's: an event that arrived by webhook is not handled again. Do not
   * await `catchUp` in an `onEvent`: they would wait for each other.
   */
  readonly seen: SeenEvents | EventClaims
  /**
   * Handles an event, as the webhook handler's `onEvent`. If it throws, or does not end within five minutes, `catchUp` throws, and the event is
   * listed again.
   */
  readonly onEvent: (event: NotificationEvent) => unknown
  /** Called for an event of an unknown type, which is skipped: a newer service has it. Its own errors are ignored. */
  readonly onSkipped?: ((refusal: Refusal) => unknown) | undefined
  /** Called with the error of a claim that could not be released after `onEvent` failed. Its own errors are ignored. */
  readonly onError?: ((error: unknown) => unknown) | undefined
}

/** How far {@link catchUp} came. */
export interface CatchUpResult {
  /**
   * Whether every event up to now is handled. False: another process is handling one of them at this moment, and `catchUp`
   * stopped before it. Call it again, because that process may fail.
   */
  readonly complete: boolean
  /** Events that were listed and are handled, by this call or before. */
  readonly events: number
}

/**
 * Handles the events that did not arrive by webhook: after an outage, or all of them in a receiver without a public address. Lists the
 * events since the cursor, oldest first, and handles each that `seen` does not know. Events that were delivered meanwhile by webhook are
 * handled once.
 *
 * ```ts
 * const client = connect({ url: "https://countersign.example.com", key: process.env.COUNTERSIGN_KEY })
 * await catchUp({
 *   list: (cursor) => client.events.list({ query: { cursor } }),
 *   cursor: await readCursor(),
 *   onCursor: writeCursor,
 *   seen,
 *   onEvent
 * })
 * ```
 */
export const catchUp = async (options: CatchUpOptions): Promise<CatchUpResult> => {
  let cursor = options.cursor
  let events = 0
  for (;;) {
    const page = await options.list(cursor)
    for (const body of page.events) {
      const read = readEvent(body)
      if (!read.ok) {
        if (read.reason !== "unknown_event_type") throw new TypeError(`countersign/webhook: ${read.message}`)
        notify(options.onSkipped, read)
        continue
      }
      if (read.event.type === "verification") continue
      if ((await handleOnce(read.event, options)) === "busy") return { complete: false, events }
      events++
    }
    cursor = page.next_cursor
    await options.onCursor(cursor)
    if (!page.has_more) return { complete: true, events }
  }
}
