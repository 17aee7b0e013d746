import { Duration, Effect, Random, Schedule, Schema, Stream } from "effect"
import { Sse } from "effect/encoding"
import { HttpClientError, type HttpClientResponse } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { SessionEvent } from "../api/SessionStream.ts"
import type { SessionId } from "../domain/Ids.ts"
import { SessionEventType } from "../domain/approvals/SessionEvent.ts"
import type { CallError, Operation } from "./Call.ts"
import { isTransient, requestedDelay } from "./isTransient.ts"

/** The errors of a stream: a problem of the operation, or a response outside the contract. */
export type StreamError = CallError<Operation<"sessions", "stream">>

/** Options of a session's event stream. */
export interface StreamOptions {
  /** The number of the last received event. Default: start at the oldest retained event. */
  readonly after?: number
  /** Delay before reconnecting. Default: as the service asks, 3 seconds. */
  readonly reconnect?: Duration.Input
}

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

/** Maximum delay between two connection attempts. */
const MAX_DELAY = Duration.seconds(30)

/** Maximum doublings of the delay, to keep the numbers small. */
const MAX_DOUBLINGS = 20

/** A connection without a byte for this long, three heartbeats, is considered dead. */
const SILENCE_TIMEOUT: Duration.Input = "45 seconds"

/** The default delay before reconnecting. */
const DEFAULT_RECONNECT_DELAY = Duration.seconds(3)

/** Number of sessions whose latest event is tracked. */
const MAX_TRACKED_SESSIONS = 1_000

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
          retry: Duration.fromInputUnsafe(options.reconnect ?? DEFAULT_RECONNECT_DELAY),
          fixed: options.reconnect !== undefined,
          failures: 0,
          requestedDelay: Duration.zero
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
  retry: Duration.Duration
  /** Whether the caller set `retry`, which the service then cannot change. */
  readonly fixed: boolean
  /** Consecutive attempts without a response. */
  failures: number
  /** The delay that the service asked for at the last failure. */
  requestedDelay: Duration.Duration
}

/** Exponential backoff, at least as long as the service asks for, with up to 20% jitter so that clients do not reconnect simultaneously. */
const delayBefore = (progress: Progress) =>
  Effect.map(Random.next, (share) => {
    const doubled = Duration.times(progress.retry, 2 ** Math.min(progress.failures, MAX_DOUBLINGS))
    const wait = Duration.max(Duration.min(doubled, MAX_DELAY), progress.requestedDelay)
    return Duration.times(wait, 1 + share / 5)
  })

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

const decodeResponse = HttpApiClient.decodeResponse(Api, { group: "sessions", endpoint: "stream" })

const isEventStream = ({ headers }: HttpClientResponse.HttpClientResponse): boolean =>
  headers["content-type"]?.startsWith("text/event-stream") === true

const contractViolation = (response: HttpClientResponse.HttpClientResponse, description: string) =>
  Effect.fail(
    new HttpClientError.HttpClientError({
      reason: new HttpClientError.DecodeError({ request: response.request, response, description })
    })
  )

const decodeEvent = Schema.decodeUnknownEffect(Schema.fromJsonString(SessionEvent))
const isKnown = Schema.is(SessionEventType)

const eventsOf = (response: HttpClientResponse.HttpClientResponse, progress: Progress): ConnectionEvents => {
  const parsed: Array<Sse.Event> = []
  const parser = Sse.makeParser((event) => {
    progress.failures = 0
    progress.requestedDelay = Duration.zero
    if (event._tag === "Event") parsed.push(event)
    else if (!progress.fixed) progress.retry = event.duration
  })
  return response.stream.pipe(
    Stream.timeoutOrElse({ duration: SILENCE_TIMEOUT, orElse: () => Stream.empty }),
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
    Stream.mapEffect(({ data }) => decodeEvent(data))
  )
}
