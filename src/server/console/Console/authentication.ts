import { Effect, Layer, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { Authentication, CurrentPrincipal } from "../../../api/Authorization.ts"
import { ConsoleSessions } from "../ConsoleSessions.ts"
import { problemResponse } from "../../http/problemResponse.ts"
import { rateLimitExceeded, RateLimits } from "../../http/RateLimits.ts"
import { sessionToken } from "./browserRequest.ts"

/**
 * Turns the session of a browser into the principal of its key. A key in the request counts for nothing here, as a cookie counts for
 * nothing under `/v1`. An answer that streams ends with the session, whatever ends that.
 */
export const layer: Layer.Layer<Authentication, never, ConsoleSessions | RateLimits> = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const sessions = yield* ConsoleSessions
    const limits = yield* RateLimits
    return Authentication.of({
      api_key: Effect.fnUntraced(function* (operation) {
        const request = yield* HttpServerRequest.HttpServerRequest
        const session = yield* sessions.find(sessionToken(request))
        const { principal } = session
        const quota = yield* limits.admitRequest(principal.actor.id)
        const answer = quota.allowed
          ? Effect.provideService(operation, CurrentPrincipal, principal)
          : problemResponse(rateLimitExceeded(quota))
        const response = quota.addHeaders(yield* answer)
        return response.body._tag === "Stream"
          ? HttpServerResponse.stream(Stream.interruptWhen(response.body.stream, sessions.ended(session)), {
              status: response.status,
              headers: response.headers,
              contentType: response.body.contentType
            })
          : response
      })
    })
  })
)
