import { Effect } from "effect"
import type { Dispatcher } from "undici"
import { EgressFailed, type EgressReason, toEgressReason } from "./EgressFailed.ts"

/** Most interim answers (1xx) before the answer. Servers send one or two (103 Early Hints). */
const MAX_INTERIM = 16

/** Longest `retry-after` that is read: an HTTP date has 29 characters. */
const MAX_RETRY_AFTER = 64

/** What came back. Any final status is an answer, redirects and errors too: the caller judges. */
export interface EgressResponse {
  /** 200 to 999. */
  readonly status: number
  /** The header as the peer wrote it. Not yet a time: it may say anything. */
  readonly retryAfter: string | undefined
  /** As it came over the wire, not decoded, cut at the request's `maxResponseBytes`. */
  readonly body: Uint8Array
  /** Whether `body` is all of it: `false` when it was too long, broke off, or did not end before the deadline. */
  readonly complete: boolean
}

/** What is written: a POST with a body. */
export interface Message {
  /** Path and query. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/**
 * How far an exchange has come. It is known apart from the effect that carries it out, because a deadline that
 * passes while a body drips must find the status that is there already.
 */
export class Progress {
  readonly #maxBytes: number
  readonly #chunks: Array<Uint8Array> = []
  #bytes = 0
  #head: { readonly status: number; readonly retryAfter: string | undefined } | undefined
  /** Whether a connection was there and the request may have been written: from here on it is not sent again. */
  started = false

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  head(status: number, retryAfter: string | undefined): void {
    this.#head = { status, retryAfter }
  }

  /** Keeps what fits. Returns whether all of it did. */
  keep(chunk: Uint8Array): boolean {
    const room = this.#maxBytes - this.#bytes
    const kept = chunk.length <= room ? chunk : chunk.subarray(0, room)
    if (kept.length > 0) this.#chunks.push(kept)
    this.#bytes += kept.length
    return chunk.length <= room
  }

  /** The answer as far as it came, or the failure where not even its headers did. */
  result(end: { readonly complete: boolean; readonly otherwise: EgressReason }) {
    const head = this.#head
    return head === undefined
      ? Effect.fail(new EgressFailed({ reason: end.otherwise }))
      : Effect.succeed<EgressResponse>({ ...head, body: Buffer.concat(this.#chunks), complete: end.complete })
  }
}

/** When an exchange is to be over. */
export interface Deadline {
  readonly hasPassed: () => boolean
  /** Sets an alarm for it; answers with how to call that off. */
  readonly onExpiry: (ring: () => void) => () => void
}

/** A reason for undici to end a request with. It is never seen. */
const ended = new Error("ended")

const retryAfterOf = (header: string | ReadonlyArray<string> | undefined): string | undefined => {
  const value = typeof header === "string" ? header : header?.[0]
  return value !== undefined && value.length <= MAX_RETRY_AFTER ? value : undefined
}

/**
 * Sends the message and reads the answer. It ends as soon as the body ends, breaks off or is too long, and at the deadline; once the
 * head of the answer is there it no longer fails. Interrupted, or at the deadline, it cuts the connection at once, or, where it is still
 * being dialled, writes nothing once it stands. A process that stood still past the deadline writes nothing either, though it hears of
 * its connection before its alarm rings: what it was about to send is long another's to send.
 */
export const exchange = (
  dispatcher: Dispatcher,
  message: Message,
  progress: Progress,
  deadline: Deadline
): Effect.Effect<EgressResponse, EgressFailed> =>
  Effect.callback((resume) => {
    let controller: Dispatcher.DispatchController | undefined
    let over = false
    let interim = 0

    const end = (complete: boolean, otherwise: EgressReason): void => {
      if (over) return
      over = true
      callOff()
      resume(progress.result({ complete, otherwise }))
    }

    const cut = (): void => {
      over = true
      callOff()
      controller?.abort(ended)
    }

    const callOff = deadline.onExpiry(() => {
      end(false, "TimedOut")
      cut()
    })

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
          if (over) return started.abort(ended)
          controller = started
          progress.started = true
        },
        onResponseStart(started, status, headers) {
          if (status >= 200) return progress.head(status, retryAfterOf(headers["retry-after"]))
          interim++
          if (interim <= MAX_INTERIM) return
          end(false, "MalformedAnswer")
          started.abort(ended)
        },
        onResponseData(started, chunk) {
          if (over || progress.keep(chunk)) return
          end(false, "Unknown")
          started.abort(ended)
        },
        onResponseEnd() {
          end(true, "Unknown")
        },
        onResponseError(_started, error) {
          end(false, toEgressReason(error))
        }
      }
    )

    return Effect.sync(cut)
  })
