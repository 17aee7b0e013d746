/**
 * Remembers which events were handled, by the id from the signed body. `has` is asked before `onEvent`, `add` is called
 * after it succeeded: an event whose handling failed, or was cut off by a crash, comes again and is handled again. Two
 * deliveries of one event at the same time in one process are handled once; in two processes they may be handled twice,
 * which a store with {@link EventClaims} prevents. A `Set` will do for a test.
 */
export interface SeenEvents {
  readonly has: (id: string) => boolean | Promise<boolean>
  readonly add: (id: string) => unknown
}

/**
 * Claims an event before it is handled, across processes. `claim` answers `"claimed"` to one caller alone, `"done"` once
 * the event was handled, and `"busy"` while another caller has it: the delivery is then answered 503 and comes again, so
 * that nothing is lost if that other caller fails. `complete` is called after `onEvent`, `release` when it failed. Let a
 * claim lapse in your store, or a crash leaves it busy for ever.
 */
export interface EventClaims {
  readonly claim: (id: string) => Claim | Promise<Claim>
  readonly complete: (id: string) => unknown
  readonly release: (id: string) => unknown
}

export type Claim = "claimed" | "done" | "busy"

/**
 * Remembers the last `limit` event ids (default 10,000) in this process. It forgets at a restart: for one process, where
 * handling an event twice does no harm.
 */
export const memorySeen = (limit = 10_000): SeenEvents => {
  const ids = new Set<string>()
  return {
    has: (id) => ids.has(id),
    add: (id) => {
      ids.add(id)
      // A set keeps the order of insertion: the first is the oldest.
      for (const oldest of ids) {
        if (ids.size <= limit) break
        ids.delete(oldest)
      }
    }
  }
}

/** Both kinds of memory as one. */
export const toEventClaims = (seen: SeenEvents | EventClaims): EventClaims =>
  "claim" in seen
    ? seen
    : {
        claim: async (id) => ((await seen.has(id)) ? "done" : "claimed"),
        complete: (id) => seen.add(id),
        release: () => undefined
      }
