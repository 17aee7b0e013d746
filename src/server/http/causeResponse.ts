import { Cause, Effect } from "effect"
import { HttpServerError, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Api } from "../../api/Api.ts"
import { InvalidRequest, MethodNotAllowed, NotFound } from "../../api/Problems.ts"
import { nearestName } from "../../domain/nearestName.ts"
import { errorsOf } from "../observability/errorsOf.ts"
import type { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import { allowedMethods } from "./causeResponse/allowedMethods.ts"
import { faultProblem } from "./faultProblem.ts"
import { problemResponse } from "./problemResponse.ts"

/**
 * The response for a failure that no handler caught: 404 or 405 for an unknown route, 503 if the database is unavailable, otherwise 500.
 * Interruption passes through, because the server answers it.
 */
export const causeResponse = (
  cause: Cause.Cause<unknown>,
  outage: DatabaseOutage
): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
  for (const error of errorsOf(cause)) {
    if (HttpServerResponse.isHttpServerResponse(error)) return Effect.succeed(error)
    if (HttpServerError.isHttpServerError(error)) {
      if (error.reason._tag === "RouteNotFound") return unknownRoute(error.reason.request)
      if (error.reason._tag === "RequestParseError")
        return problemResponse(new InvalidRequest({ detail: "The request could not be read." }))
    }
  }
  return Effect.flatMap(faultProblem(cause, outage), problemResponse)
}

/** The first segment of each path after `/v1/`. */
const resources = Object.values(Api.groups).flatMap((group) =>
  Object.values(group.endpoints).map(({ path }) => path.split("/")[2] ?? "")
)

/** The most segments of an unknown path that are searched for its resource. */
const MAX_PREFIX_SEGMENTS = 6

/** The end of a sentence about an unknown path, with the resource that it may stand for. */
const suggest = (url: string): string => {
  const [path = ""] = url.split(/[?#]/, 1)
  const [, ...segments] = path.split("/", MAX_PREFIX_SEGMENTS)
  // Clients whose base URL has `/v1` or another prefix repeat it.
  const version = segments.lastIndexOf("v1")
  const name = segments[version + 1] ?? ""
  const nearest = nearestName(name, resources)
  return nearest === undefined || (version === 0 && name === nearest) ? "." : `; did you mean /v1/${nearest}?`
}

const unknownRoute = (request: HttpServerRequest.HttpServerRequest) => {
  const methods = allowedMethods(request.url)
  // The router also fails for a known path with a known method if a path parameter does not match: no such resource exists.
  return methods.length === 0 || methods.includes(request.method)
    ? problemResponse(
        new NotFound({ detail: `Unknown path${suggest(request.url)} See /docs for the API reference.` })
      )
    : Effect.map(
        problemResponse(new MethodNotAllowed({ detail: `This path supports ${methods.join(", ")}.` })),
        HttpServerResponse.setHeader("allow", methods.join(", "))
      )
}
