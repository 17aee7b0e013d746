import { Duration, Effect, Result, Schema, Stream } from "effect"
import type { HttpClientResponse } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { SessionEvent } from "../api/SessionStream.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { CallError, Operation } from "./Call.ts"
import type { EventConnection, EventSource, SessionFollower } from "./connect/sessionEvents.ts"
import { hideRequest, requestOf } from "./hideRequest.ts"
import { makeRuntime, type PromiseRuntime } from "./PromiseRuntime.ts"
import { UnexpectedResponse } from "./UnexpectedResponse.ts"

/** The errors of a stream: a problem of the operation, or a response outside the contract. */
export type StreamError = CallError<Operation<"sessions", "stream">>

/** Options of a session's event stream. */
export interface EventStreamOptions {
  /** The number of the last received event. Default: start at the oldest retained event. */
  readonly after?: number
  /** Delay before reconnecting. Default: as the service asks, 3 seconds. */
  readonly reconnect?: Duration.Input
}

/**
 * Streams a session's events in order, each once, until `session:closed`. It reconnects after the last event without limit, and fails
 * only if a retry cannot help: `NOT_FOUND`, `CURSOR_EXPIRED`, an invalid key.
 */
export type StreamEvents = (
  id: SessionId,
  options?: EventStreamOptions
) => Stream.Stream<SessionEvent, StreamError>

/** Opens one connection and returns the response headers, whatever the status. */
export type OpenStream = (
  id: SessionId,
  after: number | undefined
) => Effect.Effect<HttpClientResponse.HttpClientResponse, StreamError>

/** Streams sessions over connections that `open` makes. */
export const makeStream =
  (follower: SessionFollower<SessionEvent>, open: OpenStream): StreamEvents =>
  (id, { after, reconnect } = {}) =>
    Stream.unwrap(
      Effect.map(makeRuntime, (runtime) => {
        const options = {
          ...(after === undefined ? {} : { after }),
          ...(reconnect === undefined ? {} : { reconnect: Duration.toMillis(reconnect) })
        }
        return runtime.stream<SessionEvent, StreamError>((signal) =>
          follower.stream(eventSource(runtime, id, open), id, options, signal)
        )
      })
    )

/** The connections of a session's stream, by the HTTP client. */
export const eventSource = (
  runtime: PromiseRuntime,
  id: SessionId,
  open: OpenStream
): EventSource<SessionEvent> => ({
  clock: runtime.clock,
  open: async (_, after, signal) => {
    const response = await runtime.run(open(id, after), signal)
    switch (response.status) {
      case 200:
        return connectionOf(response)
      case 204:
        return undefined
      default:
        await runtime.run(decodeResponse(response), signal)
        throw unexpected(response)("the response belongs to another operation")
    }
  }
})

const connectionOf = (response: HttpClientResponse.HttpClientResponse): EventConnection<SessionEvent> => {
  const fail = unexpected(response)
  if (response.headers["content-type"]?.startsWith("text/event-stream") !== true) {
    throw fail("not an event stream")
  }
  return {
    body: Stream.toReadableStream(response.stream),
    decode: (data) => Result.getOrThrowWith(decodeEvent(data), hideRequest(OPERATION, response)),
    fail
  }
}

/** The client's method. */
const OPERATION = "stream"

const unexpected = (response: HttpClientResponse.HttpClientResponse) => (description: string) =>
  new UnexpectedResponse(requestOf(OPERATION, response.request), response.status, description)

const decodeAny = HttpApiClient.decodeResponse(Api, { group: "sessions", endpoint: "stream" })

const decodeResponse = (
  response: HttpClientResponse.HttpClientResponse
): Effect.Effect<unknown, StreamError> =>
  Effect.mapError(decodeAny(response), hideRequest(OPERATION, response))

const decodeEvent = Schema.decodeUnknownResult(Schema.fromJsonString(SessionEvent))
