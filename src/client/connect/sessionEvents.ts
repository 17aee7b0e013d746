/** Follows a session's events over connections that may break. */
import { createParser } from "eventsource-parser"
import { isTransient, requestedDelay } from "../isTransient.ts"
import type { StreamOptions } from "../StreamOptions.ts"
import {
  DEFAULT_RECONNECT_MILLIS,
  MAX_EVENT_CHARACTERS,
  MAX_TRACKED_SESSIONS,
  reconnectDelay,
  SILENCE_MILLIS
} from "../streamPolicy.ts"
import type { UnexpectedResponse } from "../UnexpectedResponse.ts"
import { toMillis } from "./Duration.ts"
import { sessionEventTypes } from "./generated/operationTable.ts"
import { type Clock, linkSignals } from "./wait.ts"

/** What every event has, in the form of either client. */
export interface AnySessionEvent {
  readonly id: number
  readonly type: string
}

/** An open connection. */
export interface EventConnection<Event> {
  readonly body: ReadableStream<Uint8Array>
  /** Reads the data of an event; throws for data outside the contract. */
  readonly decode: (data: string) => Event
  /** The error for a connection outside the contract. */
  readonly fail: (description: string) => UnexpectedResponse
}

/** The connections of one client, and its clock. */
export interface EventSource<Event> {
  readonly clock: Clock
  /** Connects after an event. Resolves with `undefined` if the session is closed and has no more events. */
  readonly open: (
    id: string,
    after: number | undefined,
    signal: AbortSignal
  ) => Promise<EventConnection<Event> | undefined>
}

/** Streams sessions and tracks their latest event. */
export interface SessionFollower<Event> {
  /**
   * Streams a session's events in order, each once, until `session:closed`. It reconnects after the last event without limit, and fails
   * only if a retry cannot help: `NOT_FOUND`, `CURSOR_EXPIRED`, an invalid key.
   */
  readonly stream: (
    source: EventSource<Event>,
    id: string,
    options: StreamOptions,
    signal: AbortSignal
  ) => AsyncGenerator<Event, void, undefined>
  /** Returns the number of the latest event of a session that any stream of this client received. */
  readonly lastSeen: (id: string) => number | undefined
}

/** Creates the follower of a client. */
export const makeFollower = <Event extends AnySessionEvent>(): SessionFollower<Event> => {
  const latest = new Map<string, number>()

  const remember = (id: string, number: number): void => {
    const before = latest.get(id) ?? 0
    latest.delete(id)
    latest.set(id, Math.max(before, number))
    const [oldest] = latest.keys()
    if (latest.size > MAX_TRACKED_SESSIONS && oldest !== undefined) latest.delete(oldest)
  }

  async function* stream(
    { clock, open }: EventSource<Event>,
    id: string,
    options: StreamOptions,
    signal: AbortSignal
  ): AsyncGenerator<Event, void, undefined> {
    const progress: Progress = {
      retry: options.reconnect === undefined ? DEFAULT_RECONNECT_MILLIS : toMillis(options.reconnect),
      isFixed: options.reconnect !== undefined,
      failures: 0,
      requestedDelay: 0
    }
    let { after } = options
    for (;;) {
      signal.throwIfAborted()
      // Listeners of a connection end with it: a stream may have thousands.
      const attempt = linkSignals(signal)
      try {
        const connection = await open(id, after, attempt.signal)
        if (connection === undefined) return
        for await (const event of readEvents(connection, clock, progress, attempt.signal)) {
          // A repeated event from the service or a proxy is dropped.
          if (event.id <= (after ?? 0)) continue
          after = event.id
          remember(id, event.id)
          yield event
          if (event.type === "session:closed") return
          signal.throwIfAborted()
        }
      } catch (error) {
        signal.throwIfAborted()
        if (!isTransient(error)) throw error
        progress.failures++
        progress.requestedDelay = requestedDelay(error)
      } finally {
        attempt.unlink()
      }
      await clock.sleep(
        reconnectDelay(progress.retry, progress.failures, progress.requestedDelay, clock.random()),
        signal
      )
    }
  }

  return { stream, lastSeen: (id) => latest.get(id) }
}

/** The state of a stream's connections. */
interface Progress {
  /** Delay before reconnecting, in milliseconds. */
  retry: number
  /** Whether the caller set `retry`, which the service then cannot change. */
  readonly isFixed: boolean
  /** Consecutive attempts without a response. */
  failures: number
  /** The delay in milliseconds that the service asked for at the last failure. */
  requestedDelay: number
}

/** The events of one connection. A connection that breaks or goes silent ends. */
async function* readEvents<Event>(
  { body, decode, fail }: EventConnection<Event>,
  clock: Clock,
  progress: Progress,
  signal: AbortSignal
): AsyncGenerator<Event, void, undefined> {
  const received: Array<string> = []
  let isTooLarge = false
  const isAlive = () => {
    progress.failures = 0
    progress.requestedDelay = 0
  }
  const parser = createParser({
    maxBufferSize: MAX_EVENT_CHARACTERS,
    onEvent: ({ data, event = "" }) => {
      isAlive()
      // Event types of a newer service are ignored.
      if (sessionEventTypes.has(event)) received.push(data)
    },
    onRetry: (millis) => {
      isAlive()
      if (!progress.isFixed) progress.retry = millis
    },
    onError: ({ type }) => {
      isTooLarge ||= type === "max-buffer-size-exceeded"
    }
  })
  const decoder = new TextDecoder()
  const reader = body.getReader()
  // Canceling ends a pending read.
  const cancel = () => void reader.cancel().catch(() => undefined)
  signal.addEventListener("abort", cancel)
  try {
    for (;;) {
      const heard = new AbortController()
      clock.sleep(SILENCE_MILLIS, heard.signal).then(cancel, () => undefined)
      const chunk = await reader
        .read()
        .catch(() => ({ done: true, value: undefined }))
        .finally(() => heard.abort())
      signal.throwIfAborted()
      if (chunk.done) return
      parser.feed(decoder.decode(chunk.value, { stream: true }))
      if (isTooLarge) throw fail("an event exceeds the maximum size")
      for (const data of received.splice(0)) yield decode(data)
    }
  } finally {
    signal.removeEventListener("abort", cancel)
    await reader.cancel().catch(() => undefined)
  }
}
