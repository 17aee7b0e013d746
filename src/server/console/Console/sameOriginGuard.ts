import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CrossSite } from "../../../api/Console.ts"
import { problemResponse } from "../../http/problemResponse.ts"
import { isSameOrigin } from "./browserRequest.ts"

/** In front of every operation of the console: what another site's page asks for is refused unread, and no answer is kept by a cache. */
export const layer = (publicUrl: string) =>
  HttpRouter.middleware((route) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      isSameOrigin(request, publicUrl)
        ? Effect.map(route, HttpServerResponse.setHeader("cache-control", "no-store"))
        : problemResponse(
            new CrossSite({ detail: "Open the console by its own address and try again there" })
          )
    )
  ).layer
