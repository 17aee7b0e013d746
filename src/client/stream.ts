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

/** Why following a session fails: what the service refuses it for, or an answer that is not of the contract. */
export type StreamError = CallError<Operation<"sessions", "stream">>

/** How a session is followed. */
export interface StreamOptions {
  /** The number of the last event that was seen. Default: from the first event that the service keeps. */
  readonly after?: number
  /** How long to wait after a break before connecting again. Default: as the service asks, 3 seconds. */
  readonly reconnect?: Duration.Input
}

/** Opens one connection: the head of the answer, whatever its status. */
export type OpenStream = (
  id: SessionId,
  after: number | undefined
) => Effect.Effect<HttpClientResponse.HttpClientResponse, StreamError>

/** Follows sessions, and knows how far it came. */
export interface SessionFollower {
  /**
   * A session's events in order, each once, until `session:closed`. Breaks are not seen: it connects again after the last event,
   * and does not tire of it. It fails where trying again does not help: `NOT_FOUND`, `CURSOR_EXPIRED`, a key that is not valid.
   */
  readonly stream: (id: SessionId, options?: StreamOptions) => Stream.Stream<SessionEvent, StreamError>
  /** The number of the newest event that was seen of a session, by any of its streams here. */
  readonly lastSeen: (id: SessionId) => number | undefined
}

/** The longest wait between two attempts to connect. */
const LONGEST_WAIT = Duration.seconds(30)

/** How often the wait is doubled; beyond that numbers only grow. */
const MOST_DOUBLINGS = 20

/** Without a byte for this long, three comments, the connection is taken for dead. */
const SILENCE: Duration.Input = "45 seconds"

/** The wait where the service does not say. */
const RECONNECT = Duration.seconds(3)

/** Sessions whose newest number is remembered. */
const REMEMBERED_SESSIONS = 1_000

/** There will never be more: the session is closed and its last event was seen. */
const OVER: unique symbol = Symbol("over")

/** Follows sessions over connections that `open` makes. */
export const makeFollower = (open: OpenStream): SessionFollower => {
  const newest = new Map<SessionId, number>()

  const remember = (id: SessionId, number: number): void => {
    const before = newest.get(id) ?? 0
    newest.delete(id)
    newest.set(id, Math.max(before, number))
    const [oldest] = newest.keys()
    if (newest.size > REMEMBERED_SESSIONS && oldest !== undefined) newest.delete(oldest)
  }

  return {
    lastSeen: (id) => newest.get(id),
    stream: (id, options = {}) =>
      Stream.suspend(() => {
        const progress: Progress = {
          after: options.after,
          retry: Duration.fromInputUnsafe(options.reconnect ?? RECONNECT),
          fixed: options.reconnect !== undefined,
          failures: 0,
          patience: Duration.zero
        }
        return Stream.suspend(() => connection(open, id, progress)).pipe(
          Stream.repeat(Schedule.forever.pipe(Schedule.addDelay(() => waitBefore(progress)))),
          Stream.takeUntil((event) => event === OVER || event.type === "session:closed"),
          // A service or a proxy that repeats itself is no reason to see an event twice.
          Stream.filter((event): event is SessionEvent => event !== OVER && event.id > (progress.after ?? 0)),
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

/** How far a stream came, and how its connections fare. */
interface Progress {
  after: number | undefined
  retry: Duration.Duration
  /** Whether the caller set `retry`, so that the service does not. */
  readonly fixed: boolean
  /** Attempts in a row that brought no answer. */
  failures: number
  /** How long the service asked to be left alone at the last of them. */
  patience: Duration.Duration
}

/**
 * Twice as long after each failure in a row, as long as the service asks for at least, and up to a fifth longer by chance, so that
 * clients do not all come back at once.
 */
const waitBefore = (progress: Progress) =>
  Effect.map(Random.next, (share) => {
    const doubled = Duration.times(progress.retry, 2 ** Math.min(progress.failures, MOST_DOUBLINGS))
    const wait = Duration.max(Duration.min(doubled, LONGEST_WAIT), progress.patience)
    return Duration.times(wait, 1 + share / 5)
  })

type Received = Stream.Stream<SessionEvent | typeof OVER, StreamError>

/** The events of one connection; it ends when that does, for whatever reason that passes. */
const connection = (open: OpenStream, id: SessionId, progress: Progress): Received =>
  Stream.unwrap(
    open(id, progress.after).pipe(
      Effect.flatMap((response) => received(response, progress)),
      Effect.catchIf(isTransient, (error) =>
        Effect.sync((): Received => {
          progress.failures++
          progress.patience = requestedDelay(error)
          return Stream.empty
        })
      )
    )
  )

const received = (
  response: HttpClientResponse.HttpClientResponse,
  progress: Progress
): Effect.Effect<Received, StreamError> => {
  switch (response.status) {
    case 200:
      return isEventStream(response)
        ? Effect.succeed(eventsOf(response, progress))
        : notOfTheContract(response, "The answer is not an event stream")
    case 204:
      return Effect.succeed(Stream.succeed(OVER))
    default:
      return Effect.andThen(
        decodeAnswer(response),
        notOfTheContract(response, "An answer of another operation")
      )
  }
}

const decodeAnswer = HttpApiClient.decodeResponse(Api, { group: "sessions", endpoint: "stream" })

const isEventStream = ({ headers }: HttpClientResponse.HttpClientResponse): boolean =>
  headers["content-type"]?.startsWith("text/event-stream") === true

const notOfTheContract = (response: HttpClientResponse.HttpClientResponse, description: string) =>
  Effect.fail(
    new HttpClientError.HttpClientError({
      reason: new HttpClientError.DecodeError({ request: response.request, response, description })
    })
  )

const decodeEvent = Schema.decodeUnknownEffect(Schema.fromJsonString(SessionEvent))
const isKnown = Schema.is(SessionEventType)

const eventsOf = (response: HttpClientResponse.HttpClientResponse, progress: Progress): Received => {
  const found: Array<Sse.Event> = []
  const parser = Sse.makeParser((event) => {
    progress.failures = 0
    progress.patience = Duration.zero
    if (event._tag === "Event") found.push(event)
    else if (!progress.fixed) progress.retry = event.duration
  })
  return response.stream.pipe(
    Stream.timeoutOrElse({ duration: SILENCE, orElse: () => Stream.empty }),
    // A connection that breaks is a connection that ends.
    Stream.catch(() => Stream.empty),
    Stream.decodeText(),
    Stream.mapEffect((text) =>
      parser.feed(text) === undefined
        ? Effect.sync(() => found.splice(0))
        : notOfTheContract(response, "An event larger than any that the service sends")
    ),
    Stream.flattenIterable,
    // What a newer service tells beside what is known here is passed over.
    Stream.filter(({ event }) => isKnown(event)),
    Stream.mapEffect(({ data }) => decodeEvent(data))
  )
}
