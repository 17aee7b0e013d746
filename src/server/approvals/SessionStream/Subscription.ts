import type { Fiber, Pull } from "effect"
import type { KeyId, OrgId, SessionId } from "../../../domain/Ids.ts"

/** A session as the store keys it. */
export interface SessionKey {
  readonly org_id: OrgId
  readonly session_id: SessionId
}

/** What a reading of a session after a cursor found. `newest` is the number of its newest event then. */
export type ReadResult =
  | {
      readonly _tag: "EventsRead"
      /** The events, as every reader of them is sent them. */
      readonly bytes: Uint8Array
      /** The number of the last of them. */
      readonly last: number
      readonly newest: number
      /** `session:closed` is among them: nothing follows. */
      readonly closes: boolean
    }
  | { readonly _tag: "Nothing"; readonly newest: number }
  /** The event after the cursor is no longer kept. */
  | { readonly _tag: "Gap" }

export type EventsRead = Extract<ReadResult, { readonly _tag: "EventsRead" }>

/** A session that somebody in this process follows. */
export interface FollowedSession extends SessionKey {
  readonly subscriptions: Set<Subscription>
  /** Readings on the way, by the cursor they go on from: those who go on from the same event share one. */
  readonly reads: Map<number, SharedRead>
  /** The number of the newest event that this process has heard of. */
  newest: number
}

/** A reading on the way. */
export interface SharedRead {
  readonly subscriptions: Array<Subscription>
  /** What was known of the session when it began. */
  readonly newestAtStart: number
}

/** What a pull of a stream is answered with: bytes, or its end. */
export type PullResult = Pull.Pull<readonly [Uint8Array]>

/**
 * One open stream. A plain object that changes in place, since there are ten thousand of them and nearly all do nothing: its one
 * fiber is the one that the HTTP server runs the request in, which waits in `resume`.
 */
export interface Subscription {
  readonly followed: FollowedSession
  readonly key_id: KeyId
  /** The number of the last event that was handed to the socket. */
  cursor: number
  /** What is sent next: the opening line first, then pages. */
  nextChunk: EventsRead | "opening" | undefined
  /** Whether a page is on the way. */
  isReading: boolean
  /** Whether to read though nothing was heard: events may have come between the look at the session and the place here. */
  mustRead: boolean
  /** Nothing more is sent. */
  hasEnded: boolean
  /** When the next comment is due, in milliseconds. */
  heartbeatDueAt: number
  /** Since when the socket has bytes that it has not taken, in milliseconds; undefined: it has taken all. */
  writePendingSince: number | undefined
  /** Answers the pull that waits. */
  resume: ((answer: PullResult) => void) | undefined
  /** The request's fiber: interrupting it cuts the connection. */
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}
