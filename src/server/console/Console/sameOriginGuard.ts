import { Context, Effect } from "effect"
import { Headers, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CrossSite } from "../../../api/Console.ts"
import { PAGE_HEADER, PAGE_PARAMETER } from "../../../api/console/pageToken.ts"
import { problemResponse } from "../../http/problemResponse.ts"
import { isSameOrigin } from "./browserRequest.ts"

/** Moves the page's part of the session's token from the query to its header: operations refuse parameters that they do not know. */
const withPageHeader = <A, E, R>(
  route: Effect.Effect<A, E, R>,
  request: HttpServerRequest.HttpServerRequest
) =>
  Effect.flatMap(HttpServerRequest.ParsedSearchParams, ({ [PAGE_PARAMETER]: page, ...parameters }) =>
    typeof page !== "string"
      ? route
      : Effect.provideContext(
          route,
          Context.make(HttpServerRequest.ParsedSearchParams, parameters).pipe(
            Context.add(
              HttpServerRequest.HttpServerRequest,
              request.modify({ headers: Headers.set(request.headers, PAGE_HEADER, page) })
            )
          )
        )
  )

/** Rejects cross-site requests to the console's operations before their bodies are read, and forbids caching of the responses. */
export const layer = (publicUrl: string) =>
  HttpRouter.middleware((route) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      isSameOrigin(request, publicUrl)
        ? Effect.map(withPageHeader(route, request), (response) =>
            HttpServerResponse.setHeader(
              response,
              "cache-control",
              response.headers["cache-control"] ?? "no-store"
            )
          )
        : problemResponse(
            new CrossSite({ detail: "Open the console at its own address and try again there." })
          )
    )
  ).layer
