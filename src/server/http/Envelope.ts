import { Effect, type Types } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { uuidV7Hex } from "../../domain/Ids.ts"
import { RequestId } from "../observability/RequestId.ts"
import { causeResponse } from "./causeResponse.ts"

/** The `retry-after` header of every 503, in seconds. */
const RETRY_AFTER_SECONDS = "1"

/**
 * The outermost middleware, around the API, the console and the operator routes. It gives the request its id, answers unknown paths and
 * methods, and turns a defect into a 500 with nothing but the request id. A defect is logged here, once.
 */
export const layer = HttpRouter.middleware(
  (route) =>
    Effect.suspend(() => {
      const id = `req_${uuidV7Hex()}`
      return Effect.matchCauseEffect(route, {
        onSuccess: (response) => Effect.succeed(withHeaders(response, id)),
        // `unhandled` stays in the type because the router requires that a middleware hides no error of its routes.
        onFailure: (cause): Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled> =>
          Effect.map(causeResponse(cause), (response) => withHeaders(response, id))
      }).pipe(Effect.provideService(RequestId, id))
    }),
  { global: true }
)

const withHeaders = (response: HttpServerResponse.HttpServerResponse, id: string) => {
  const identified = HttpServerResponse.setHeader(response, "x-request-id", id)
  switch (response.status) {
    case 401:
      return HttpServerResponse.setHeader(identified, "www-authenticate", 'Bearer realm="countersign"')
    case 503:
      return HttpServerResponse.setHeader(identified, "retry-after", RETRY_AFTER_SECONDS)
    default:
      return identified
  }
}
