/** Follows a session's events over connections that may break. */
import { createParser } from "eventsource-parser"
import { isTransient, requestedDelay } from "../isTransient.ts"
import {
  DEFAULT_RECONNECT_MILLIS,
  MAX_EVENT_CHARACTERS,
  MAX_TRACKED_SESSIONS,
  reconnectDelay,
  SILENCE_MILLIS
} from "../streamPolicy.ts"
import type { FailedRequest } from "../ServiceUnreachable.ts"
import { UnexpectedResponse } from "../UnexpectedResponse.ts"
import { buildRequest, failureOf } from "./call.ts"
import type { CallOptions } from "./CallOptions.ts"
import type { SessionEvent } from "./generated/Operations.ts"
import { operationTable, sessionEventTypes } from "./generated/operationTable.ts"
import { type Connection, header, send } from "./send.ts"
import { fromWire, Mismatch } from "./shape.ts"
import { linkSignals, sleep, toMillis } from "./wait.ts"
import type { StreamOptions } from "../StreamOptions.ts"

/** Streams sessions and tracks their latest event. */
export interface SessionFollower {
  readonly stream: (
    id: string,
    options?: StreamOptions & CallOptions
  ) => AsyncGenerator<SessionEvent, void, undefined>
  /** Returns the number of the latest event of a session that any stream of this client received. */
  readonly lastSeen: (id: string) => number | undefined
}

const operation = "stream"

/** Streams sessions of one service. `timeout` is that of opening a connection, in milliseconds. */
export const makeFollower = (connection: Connection, timeout: number): SessionFollower => {
  const latest = new Map<string, number>()

  const remember = (id: string, number: number): void => {
    const before = latest.get(id) ?? 0
    latest.delete(id)
    latest.set(id, Math.max(before, number))
    const [oldest] = latest.keys()
    if (latest.size > MAX_TRACKED_SESSIONS && oldest !== undefined) latest.delete(oldest)
  }

  async function* stream(
    id: string,
    options: StreamOptions & CallOptions = {}
  ): AsyncGenerator<SessionEvent, void, undefined> {
    const { signal, unlink } = linkSignals(connection.closed, options.signal)
    const progress: Progress = {
      retry: options.reconnect === undefined ? DEFAULT_RECONNECT_MILLIS : toMillis(options.reconnect),
      isFixed: options.reconnect !== undefined,
      failures: 0,
      requestedDelay: 0
    }
    let { after } = options
    try {
      for (;;) {
        signal.throwIfAborted()
        const input = { params: { id }, query: { after } }
        const request = buildRequest(connection, operation, streamEntry(), input, timeout)
        // Listeners of a connection end with it: a stream may have thousands.
        const attempt = linkSignals(signal)
        try {
          const response = await send(connection, request, attempt.signal)
          if (response.status === 204) return
          if (response.status !== 200) throw await failureOf(response, request, attempt.signal)
          for await (const event of readEvents(response, request, progress, attempt.signal)) {
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
        await sleep(
          reconnectDelay(progress.retry, progress.failures, progress.requestedDelay, Math.random()),
          signal
        )
      }
    } finally {
      unlink()
    }
  }

  return { stream, lastSeen: (id) => latest.get(id) }
}

/** A function, so that a bundle without streams is free of the table: reading a member could have an effect. */
const streamEntry = () => operationTable["sessions"]?.["stream"] ?? { method: "GET", path: "", status: 200 }

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
async function* readEvents(
  response: Response,
  request: FailedRequest,
  progress: Progress,
  signal: AbortSignal
): AsyncGenerator<SessionEvent, void, undefined> {
  const fail = (description: string) => new UnexpectedResponse(request, response.status, description)
  const reader = response.body?.getReader()
  if (reader === undefined || header(response, "content-type")?.startsWith("text/event-stream") !== true) {
    throw fail("not an event stream")
  }
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
  try {
    for (;;) {
      // Canceling ends a pending read.
      const silence = setTimeout(() => void reader.cancel().catch(() => undefined), SILENCE_MILLIS)
      const chunk = await reader
        .read()
        .catch(() => ({ done: true, value: undefined }))
        .finally(() => clearTimeout(silence))
      signal.throwIfAborted()
      if (chunk.done) return
      parser.feed(decoder.decode(chunk.value, { stream: true }))
      if (isTooLarge) throw fail("an event exceeds the maximum size")
      for (const data of received.splice(0)) yield decode(data, fail)
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

const decode = (data: string, fail: (description: string) => UnexpectedResponse): SessionEvent => {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- type and shape are generated from the same schema, and the shape is checked
    return fromWire("SessionEvent", JSON.parse(data)) as SessionEvent
  } catch (error) {
    throw fail(
      error instanceof Mismatch
        ? `an event does not match the API at ${error.pointer}`
        : "an event is not JSON"
    )
  }
}
