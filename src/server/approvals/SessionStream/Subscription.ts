import type { Fiber, Pull } from "effect"
import type { KeyId, OrgId, SessionId } from "../../../domain/Ids.ts"

/** The primary key of a session. */
export interface SessionKey {
  readonly org_id: OrgId
  readonly session_id: SessionId
}

/** The result of reading a session's events after a cursor. `newest` is the number of its newest event at that time. */
export type ReadResult =
  | {
      readonly _tag: "EventsRead"
      /** The events as server-sent events, the same bytes for every stream that shares the read. */
      readonly bytes: Uint8Array
      /** The number of the last event read. */
      readonly last: number
      readonly newest: number
      /** Whether `session:closed` is among the events: no event follows it. */
      readonly closes: boolean
    }
  | { readonly _tag: "UpToDate"; readonly newest: number }
  /** The event after the cursor was removed by retention, or the session was deleted. */
  | { readonly _tag: "Gap" }

export type EventsRead = Extract<ReadResult, { readonly _tag: "EventsRead" }>

/** A session that has streams in this replica. */
export interface FollowedSession extends SessionKey {
  readonly subscriptions: Set<Subscription>
  /** Reads in flight, by the cursor they start after. */
  readonly reads: Map<number, SharedRead>
  /** The number of the newest event that was signalled to this replica. */
  newest: number
}

/** A read in flight. */
export interface SharedRead {
  readonly subscriptions: Array<Subscription>
  /** `FollowedSession.newest` when the read started. */
  readonly newestAtStart: number
}

/** The result of one pull of a stream: bytes, or its end. */
export type PullResult = Pull.Pull<readonly [Uint8Array]>

/**
 * One open stream. It is a plain mutable object, because there can be ten thousand and nearly all are idle. Its only fiber is the one in
 * which the HTTP server runs the request, suspended in `resume`.
 */
export interface Subscription {
  readonly followed: FollowedSession
  readonly key_id: KeyId
  /** The number of the last event that was passed to the socket. */
  cursor: number
  /** Sent next: the preamble first, then pages. */
  nextChunk: EventsRead | "preamble" | undefined
  /** Whether a read for this stream is in flight. */
  isReading: boolean
  /** Whether to read without a signal: events may have been committed between the look-up of the session and the subscription. */
  mustRead: boolean
  /** Whether the stream ends once its last page was read. */
  hasEnded: boolean
  /** When the next heartbeat is due, in milliseconds on the monotonic clock. */
  heartbeatDueAt: number
  /** When the oldest unread bytes were sent, in milliseconds on the monotonic clock; undefined if the client has read all. */
  writePendingSince: number | undefined
  /** Completes the pull that waits. */
  resume: ((result: PullResult) => void) | undefined
  /** The request's fiber. Interrupting it cuts the connection. */
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}
