import type { NotificationEvent } from "./event.ts"
import { notify } from "./notify.ts"

/**
 * Records handled events by the id from the signed body. `has` is called before `onEvent`, `add` after it succeeded: an event whose
 * handling failed or was interrupted by a crash is retried and handled again. Handlers and `catchUp` with the same object handle an event
 * once, also concurrently. Two processes may both handle it; {@link EventClaims} prevents that. A `Set` is enough for a test.
 */
export interface SeenEvents {
  /** Whether the event was handled. */
  readonly has: (id: string) => boolean | Promise<boolean>
  /** Records the event as handled. */
  readonly add: (id: string) => unknown
}

/**
 * Claims events across processes before they are handled. `claim` returns `"claimed"` to exactly one caller, `"done"` if the event was
 * handled, and `"busy"` while another caller holds the claim. The response is then 503 and the delivery is retried, so nothing is lost if
 * the other caller fails. `complete` is called after `onEvent`, `release` if it failed. Let claims expire in your database, otherwise a
 * crash leaves one busy forever.
 */
export interface EventClaims {
  /** Claims the event for this caller. */
  readonly claim: (id: string) => Claim | Promise<Claim>
  /** Records the claimed event as handled. */
  readonly complete: (id: string) => unknown
  /** Gives a claim back, so that a retry can handle the event. */
  readonly release: (id: string) => unknown
}

/** The result of {@link EventClaims.claim}. */
export type Claim = "claimed" | "done" | "busy"

/**
 * Records the last `limit` event ids (default 10,000) in memory. They are lost at a restart: use it in a single process whose handling is
 * idempotent.
 */
export const memorySeen = (limit = 10_000): SeenEvents => {
  const ids = new Set<string>()
  return {
    has: (id) => ids.has(id),
    add: (id) => {
      ids.add(id)
      // A set iterates in insertion order: the first id is the oldest.
      for (const oldest of ids) {
        if (ids.size <= limit) break
        ids.delete(oldest)
      }
    }
  }
}

/** Adapts both kinds of records to claims. */
const toEventClaims = (seen: SeenEvents | EventClaims): EventClaims =>
  "claim" in seen
    ? seen
    : {
        claim: async (id) => ((await seen.has(id)) ? "done" : "claimed"),
        complete: (id) => seen.add(id),
        release: () => undefined
      }

/** How the receiver handles events. */
interface EventHandling {
  readonly seen: SeenEvents | EventClaims
  readonly onEvent: (event: NotificationEvent) => unknown
  readonly onError?: ((error: unknown) => unknown) | undefined
}

type Handled = "done" | "busy"

/**
 * How long the handling of an event may take, in milliseconds. Without an end, such as by a statement on a lost database connection, all
 * later deliveries of the event would wait for it too.
 */
const HANDLING_MILLIS = 5 * 60_000

/** Rejects when the handling of an event takes too long. It may still end later: an event may be handled twice. */
const withTimeout = async (id: string, work: Promise<Handled>): Promise<Handled> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeout = new Promise<never>((_, reject) => {
    const late = new Error(`countersign/webhook: the handling of ${id} did not end within 5 minutes`)
    timer = setTimeout(() => reject(late), HANDLING_MILLIS)
    // A number in other runtimes. It does not keep Node running.
    if (typeof timer === "object") timer.unref()
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    clearTimeout(timer)
  }
}

const handleClaimed = async (
  event: NotificationEvent,
  { onError, onEvent, seen }: EventHandling
): Promise<Handled> => {
  const claims = toEventClaims(seen)
  const claim = await claims.claim(event.id)
  if (claim !== "claimed") return claim
  try {
    await onEvent(event)
  } catch (error) {
    try {
      await claims.release(event.id)
    } catch (unreleased) {
      notify(onError, unreleased)
    }
    throw error
  }
  await claims.complete(event.id)
  return "done"
}

/** Events in progress in this process, of each record: `has` is false for an event until it is handled. */
const inProgress = new WeakMap<SeenEvents | EventClaims, Map<string, Promise<Handled>>>()

/**
 * Handles an event that this caller can claim. Callers in one process with the same record share the first one's result. Returns `"busy"`
 * if another process holds the claim, so that the event may still be unhandled. Throws what `onEvent` throws, and releases the claim
 * first; `onError` gets the error of a release that fails. Throws if the handling does not end, so that the next caller handles the event.
 */
export const handleOnce = (event: NotificationEvent, handling: EventHandling): Promise<Handled> => {
  const { seen } = handling
  const events = inProgress.get(seen) ?? new Map<string, Promise<Handled>>()
  inProgress.set(seen, events)
  const first = events.get(event.id)
  if (first !== undefined) return first
  const work = withTimeout(event.id, handleClaimed(event, handling)).finally(() => events.delete(event.id))
  events.set(event.id, work)
  return work
}
