import { Duration, Effect, Random, Schedule, Schema, Stream } from "effect"
import { Sse } from "effect/encoding"
import type { HttpClientResponse } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { SessionEvent } from "../api/SessionStream.ts"
import type { SessionId } from "../domain/Ids.ts"
import { SessionEventType } from "../domain/approvals/SessionEvent.ts"
import type { CallError, Operation } from "./Call.ts"
import { hideRequest, requestOf } from "./hideRequest.ts"
import { isTransient, requestedDelay } from "./isTransient.ts"
import type { StreamOptions } from "./StreamOptions.ts"
import {
  DEFAULT_RECONNECT_MILLIS,
  MAX_EVENT_CHARACTERS,
  MAX_TRACKED_SESSIONS,
  reconnectDelay,
  SILENCE_MILLIS
} from "./streamPolicy.ts"
import { UnexpectedResponse } from "./UnexpectedResponse.ts"

/** The errors of a stream: a problem of the operation, or a response outside the contract. */
export type StreamError = CallError<Operation<"sessions", "stream">>

/** Opens one connection and returns the response headers, whatever the status. */
export type OpenStream = (
  id: SessionId,
  after: number | undefined
) => Effect.Effect<HttpClientResponse.HttpClientResponse, StreamError>

/** Streams sessions and tracks their latest event. */
export interface SessionFollower {
  /**
   * Streams a session's events in order, each once, until `session:closed`. It reconnects after the last event without limit, and fails
   * only if a retry cannot help: `NOT_FOUND`, `CURSOR_EXPIRED`, an invalid key.
   */
  readonly stream: (id: SessionId, options?: StreamOptions) => Stream.Stream<SessionEvent, StreamError>
  /** Returns the number of the latest event of a session that any stream of this client received. */
  readonly lastSeen: (id: SessionId) => number | undefined
}

/** Marks the end: the session is closed and its last event was received. */
const END: unique symbol = Symbol("end")

/** Streams sessions over connections that `open` makes. */
export const makeFollower = (open: OpenStream): SessionFollower => {
  const latest = new Map<SessionId, number>()

  const remember = (id: SessionId, number: number): void => {
    const before = latest.get(id) ?? 0
    latest.delete(id)
    latest.set(id, Math.max(before, number))
    const [oldest] = latest.keys()
    if (latest.size > MAX_TRACKED_SESSIONS && oldest !== undefined) latest.delete(oldest)
  }

  return {
    lastSeen: (id) => latest.get(id),
    stream: (id, options = {}) =>
      Stream.suspend(() => {
        const progress: Progress = {
          after: options.after,
          retry: Duration.toMillis(Duration.fromInputUnsafe(options.reconnect ?? DEFAULT_RECONNECT_MILLIS)),
          fixed: options.reconnect !== undefined,
          failures: 0,
          requestedDelay: 0
        }
        return Stream.suspend(() => connection(open, id, progress)).pipe(
          Stream.repeat(Schedule.forever.pipe(Schedule.addDelay(() => delayBefore(progress)))),
          Stream.takeUntil((event) => event === END || event.type === "session:closed"),
          // A repeated event from the service or a proxy is dropped.
          Stream.filter((event): event is SessionEvent => event !== END && event.id > (progress.after ?? 0)),
          Stream.tap(({ id: number }) =>
            Effect.sync(() => {
              progress.after = number
              remember(id, number)
            })
          )
        )
      })
  }
}

/** The position of a stream and the state of its connections. */
interface Progress {
  after: number | undefined
  /** Delay before reconnecting, in milliseconds. */
  retry: number
  /** Whether the caller set `retry`, which the service then cannot change. */
  readonly fixed: boolean
  /** Consecutive attempts without a response. */
  failures: number
  /** The delay in milliseconds that the service asked for at the last failure. */
  requestedDelay: number
}

const delayBefore = ({ failures, requestedDelay, retry }: Progress) =>
  Effect.map(Random.next, (share) => Duration.millis(reconnectDelay(retry, failures, requestedDelay, share)))

type ConnectionEvents = Stream.Stream<SessionEvent | typeof END, StreamError>

/** The events of one connection, which ends on any transient failure. */
const connection = (open: OpenStream, id: SessionId, progress: Progress): ConnectionEvents =>
  Stream.unwrap(
    open(id, progress.after).pipe(
      Effect.flatMap((response) => readResponse(response, progress)),
      Effect.catchIf(isTransient, (error) =>
        Effect.sync((): ConnectionEvents => {
          progress.failures++
          progress.requestedDelay = requestedDelay(error)
          return Stream.empty
        })
      )
    )
  )

const readResponse = (
  response: HttpClientResponse.HttpClientResponse,
  progress: Progress
): Effect.Effect<ConnectionEvents, StreamError> => {
  switch (response.status) {
    case 200:
      return isEventStream(response)
        ? Effect.succeed(eventsOf(response, progress))
        : contractViolation(response, "The response is not an event stream")
    case 204:
      return Effect.succeed(Stream.succeed(END))
    default:
      return Effect.andThen(
        decodeResponse(response),
        contractViolation(response, "The response belongs to another operation")
      )
  }
}

const decodeAny = HttpApiClient.decodeResponse(Api, { group: "sessions", endpoint: "stream" })

const decodeResponse = (
  response: HttpClientResponse.HttpClientResponse
): Effect.Effect<unknown, StreamError> =>
  Effect.mapError(decodeAny(response), hideRequest(OPERATION, response))

/** The client's method. */
const OPERATION = "stream"

const isEventStream = ({ headers }: HttpClientResponse.HttpClientResponse): boolean =>
  headers["content-type"]?.startsWith("text/event-stream") === true

const contractViolation = (response: HttpClientResponse.HttpClientResponse, description: string) =>
  Effect.fail(new UnexpectedResponse(requestOf(OPERATION, response.request), response.status, description))

const decodeEvent = Schema.decodeUnknownEffect(Schema.fromJsonString(SessionEvent))
const isKnown = Schema.is(SessionEventType)

const eventsOf = (response: HttpClientResponse.HttpClientResponse, progress: Progress): ConnectionEvents => {
  const parsed: Array<Sse.Event> = []
  const parser = Sse.makeParser(
    (event) => {
      progress.failures = 0
      progress.requestedDelay = 0
      if (event._tag === "Event") parsed.push(event)
      else if (!progress.fixed) progress.retry = Duration.toMillis(event.duration)
    },
    { maxEventSize: MAX_EVENT_CHARACTERS }
  )
  return response.stream.pipe(
    Stream.timeoutOrElse({ duration: SILENCE_MILLIS, orElse: () => Stream.empty }),
    // A broken connection counts as ended.
    Stream.catch(() => Stream.empty),
    Stream.decodeText(),
    Stream.mapEffect((text) =>
      parser.feed(text) === undefined
        ? Effect.sync(() => parsed.splice(0))
        : contractViolation(response, "An event exceeds the maximum size")
    ),
    Stream.flattenIterable,
    // Event types of a newer service are ignored.
    Stream.filter(({ event }) => isKnown(event)),
    Stream.mapEffect(({ data }) => Effect.mapError(decodeEvent(data), hideRequest(OPERATION, response)))
  )
}
