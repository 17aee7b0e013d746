import { Effect, Stream } from "effect"
import { HttpServerResponse } from "effect/http"

/**
 * Ends a streamed response when the right to read it ends. An event stream ends normally: its client opens it again, and is refused. The
 * connection of a file is cut, because a file that ended normally would look complete.
 */
export const endWith =
  (ended: Effect.Effect<void>) =>
  (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse => {
    const { body, headers, status } = response
    if (body._tag !== "Stream") return response
    const isEventStream = body.contentType.startsWith("text/event-stream")
    const end = isEventStream ? ended : Effect.andThen(ended, Effect.interrupt)
    return HttpServerResponse.stream(Stream.interruptWhen(body.stream, end), {
      status,
      headers,
      contentType: body.contentType
    })
  }
