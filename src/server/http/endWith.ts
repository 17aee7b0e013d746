import { Effect, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { isEventStream } from "../admission/FairReads.ts"

/**
 * Ends a streamed response when the right to read it ends. An event stream ends normally: its client opens it again, and is refused. The
 * connection of a file is cut, because a file that ended normally would look complete.
 */
export const endWith =
  (ended: Effect.Effect<void>) =>
  (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse => {
    const { body, headers, status } = response
    if (body._tag !== "Stream") return response
    const end = isEventStream(body) ? ended : Effect.andThen(ended, Effect.interrupt)
    return HttpServerResponse.stream(Stream.interruptWhen(body.stream, end), {
      status,
      headers,
      contentType: body.contentType
    })
  }

/**
 * `endWith` for all but event streams. Those of the API end with their keys by themselves (`SessionStream`): a fiber for each of thousands
 * of idle ones would double their memory.
 */
export const endFileWith =
  (ended: Effect.Effect<void>) =>
  (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
    isEventStream(response.body) ? response : endWith(ended)(response)
