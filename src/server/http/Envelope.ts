import { Effect, type Types } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { NotFound } from "../../api/Problems.ts"
import { uuidV7Hex } from "../../domain/Ids.ts"
import { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import { RequestId } from "../observability/RequestId.ts"
import { causeResponse } from "./causeResponse.ts"
import { makeRequestLog } from "./RequestLog.ts"
import { problemResponse } from "./problemResponse.ts"
import { isNonCanonicalPath } from "./isNonCanonicalPath.ts"

/** The `retry-after` header of every 503, in seconds. */
const RETRY_AFTER_SECONDS = "1"

/** The smallest response that is compressed: others fit in a few packets. */
const COMPRESSED_BYTES = 8 * 2 ** 10

/**
 * Compresses large JSON responses, such as pages of lists, on another thread if the client accepts it. The qualities take as long as writing
 * the text. Only of reads: these contain no secret beside text that a caller of another origin chooses (BREACH), because the console refuses
 * requests of other origins.
 */
const compressed = HttpMiddleware.compression({
  algorithms: ["br", "gzip"],
  levels: { br: 4, gzip: 4 },
  minSize: COMPRESSED_BYTES,
  compressible: (type) => type.startsWith("application/json")
})

const unknownPath = Effect.suspend(() =>
  problemResponse(
    new NotFound({
      detail:
        "Unknown path. Leave out a slash at its end, and percent-encode only characters of identifiers. See /docs."
    })
  )
)

/**
 * The outermost middleware, around the API, the console and the operator routes. It gives the request its id, answers unknown paths and
 * methods, and turns a defect into a 500 with nothing but the request id. A defect is logged here, once.
 */
export const layer = HttpRouter.middleware(
  Effect.zipWith(
    DatabaseOutage,
    makeRequestLog,
    (outage, log) => (route) =>
      Effect.suspend(() => {
        const id = `req_${uuidV7Hex()}`
        const spelled = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) =>
          isNonCanonicalPath(url) ? unknownPath : route
        )
        const answered = Effect.matchCauseEffect(spelled, {
          onSuccess: (response) => Effect.succeed(withHeaders(response, id)),
          // `unhandled` stays in the type because the router does not accept a middleware that handles errors of its
          // routes.
          onFailure: (cause): Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled> =>
            Effect.map(causeResponse(cause, outage), (response) => withHeaders(response, id))
        })
        const logged = Effect.provideService(log.logged(id, answered), RequestId, id)
        return Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method }) =>
          method === "GET" ? compressed(logged) : logged
        )
      })
  ),
  { global: true }
)

const withHeaders = (response: HttpServerResponse.HttpServerResponse, id: string) => {
  const identified = HttpServerResponse.setHeaders(response, {
    "x-request-id": id,
    "x-content-type-options": "nosniff",
    // Responses of operations depend on the key and may contain secrets. Other routes choose for themselves.
    "cache-control": response.headers["cache-control"] ?? "no-store"
  })
  switch (response.status) {
    case 401:
      return HttpServerResponse.setHeader(identified, "www-authenticate", 'Bearer realm="countersign"')
    case 503:
      return HttpServerResponse.setHeader(identified, "retry-after", RETRY_AFTER_SECONDS)
    default:
      return identified
  }
}
