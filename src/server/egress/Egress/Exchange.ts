import { Effect } from "effect"
import type { Dispatcher } from "undici"
import type { PoolOfAddress } from "./Connections.ts"
import type { EgressResponse } from "../EgressResponse.ts"
import { EgressFailed, type EgressReason, isClosedByPeer, toEgressReason } from "../EgressFailed.ts"

/** Interim responses (1xx) accepted before the final one. Servers send one or two (103 Early Hints). */
const MAX_INTERIM = 16

/** Longest `retry-after` header that is read; an HTTP date has 29 characters. */
const MAX_RETRY_AFTER = 64

/** A POST request with its body. */
export interface Message {
  /** Path and query. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/**
 * How far an exchange has come. Kept outside the effect that runs the exchange, because a deadline that passes while a
 * body drips must find the status that has already arrived.
 */
export class Progress {
  readonly #maxBytes: number
  readonly #chunks: Array<Uint8Array> = []
  #bytes = 0
  #head: { readonly status: number; readonly retryAfter: string | undefined } | undefined
  /** Whether a connection was open and the request may have been written. */
  started = false
  /** Whether the server closed the connection before it began to answer, after it had answered another request on it: it was idle too long. */
  wasIdle = false

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  head(status: number, retryAfter: string | undefined): void {
    this.#head = { status, retryAfter }
  }

  /** Keeps as much of the chunk as fits. Returns whether all of it did. */
  keep(chunk: Uint8Array): boolean {
    const capacity = this.#maxBytes - this.#bytes
    const kept = chunk.length <= capacity ? chunk : chunk.subarray(0, capacity)
    if (kept.length > 0) this.#chunks.push(kept)
    this.#bytes += kept.length
    return chunk.length <= capacity
  }

  /** The part of the response that arrived, or a failure if its headers did not. */
  result(end: { readonly complete: boolean; readonly otherwise: EgressReason }) {
    const head = this.#head
    return head === undefined
      ? Effect.fail(new EgressFailed({ reason: end.otherwise }))
      : Effect.succeed<EgressResponse>({ ...head, body: Buffer.concat(this.#chunks), complete: end.complete })
  }
}

/** When an exchange must be over. */
export interface Deadline {
  readonly hasPassed: () => boolean
  /** Schedules a callback for the deadline; returns a function that cancels it. */
  readonly onExpiry: (callback: () => void) => () => void
}

/** The reason passed to undici when aborting a request. Never shown. */
const aborted = new Error("aborted")

const retryAfterOf = (header: string | ReadonlyArray<string> | undefined): string | undefined => {
  const value = typeof header === "string" ? header : header?.[0]
  return value !== undefined && value.length <= MAX_RETRY_AFTER ? value : undefined
}

/**
 * Sends the message and reads the response. Ends when the body ends, breaks off or is too long, and at the deadline;
 * once the response's headers have arrived it no longer fails. On interruption and at the deadline it closes the
 * connection; a connection that is still being opened is closed as soon as it is open, with nothing written. A process
 * that was suspended past the deadline writes nothing either, even though it sees its connection open before its timer
 * fires: by then another replica may have sent the same request.
 */
export const exchange = (
  { dispatcher, opened }: PoolOfAddress,
  message: Message,
  progress: Progress,
  deadline: Deadline
): Effect.Effect<EgressResponse, EgressFailed> =>
  Effect.callback((resume) => {
    let controller: Dispatcher.DispatchController | undefined
    let over = false
    let interim = 0
    const openedBefore = opened()
    let isFirstUse = true
    let isAnswered = false

    const end = (complete: boolean, otherwise: EgressReason): void => {
      if (over) return
      over = true
      cancelTimer()
      resume(progress.result({ complete, otherwise }))
    }

    const cut = (): void => {
      over = true
      cancelTimer()
      controller?.abort(aborted)
    }

    const expire = (): void => {
      end(false, "TimedOut")
      cut()
    }

    let immediate: NodeJS.Immediate | undefined
    const stopTimer = deadline.onExpiry(() => {
      // Not immediately: after a stall of the process, timers run before the sockets are read. A response that arrived
      // in time is read first.
      immediate = setImmediate(expire)
    })
    const cancelTimer = (): void => {
      stopTimer()
      clearImmediate(immediate)
    }

    dispatcher.dispatch(
      {
        method: "POST",
        path: message.target,
        headers: message.headers,
        body: message.body
      },
      {
        onRequestStart(started) {
          if (deadline.hasPassed()) end(false, "TimedOut")
          if (over) return started.abort(aborted)
          controller = started
          progress.started = true
          isFirstUse = opened() !== openedBefore
        },
        onResponseStart(started, status, headers) {
          isAnswered = true
          if (status >= 200) return progress.head(status, retryAfterOf(headers["retry-after"]))
          interim++
          if (interim <= MAX_INTERIM) return
          end(false, "MalformedResponse")
          started.abort(aborted)
        },
        onResponseData(started, chunk) {
          if (over || progress.keep(chunk)) return
          end(false, "Unknown")
          started.abort(aborted)
        },
        onResponseEnd() {
          end(true, "Unknown")
        },
        onResponseError(_started, error) {
          progress.wasIdle = !isFirstUse && !isAnswered && isClosedByPeer(error)
          end(false, toEgressReason(error))
        }
      }
    )

    return Effect.sync(cut)
  })
