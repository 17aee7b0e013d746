import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CrossSite } from "../../../api/Console.ts"
import { problemResponse } from "../../http/problemResponse.ts"
import { isSameOrigin } from "./browserRequest.ts"

/** Rejects cross-site requests to the console's operations before their bodies are read, and forbids caching of the responses. */
export const layer = (publicUrl: string) =>
  HttpRouter.middleware((route) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      isSameOrigin(request, publicUrl)
        ? Effect.map(route, HttpServerResponse.setHeader("cache-control", "no-store"))
        : problemResponse(
            new CrossSite({ detail: "Open the console at its own address and try again there." })
          )
    )
  ).layer
