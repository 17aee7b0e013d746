/**
 * `/openapi.json` and `/docs`: the OpenAPI document, and a page that renders it. Both are rendered at the first
 * request, in a worker thread.
 */
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { renderInWorker } from "./ApiReference/renderInWorker.ts"
import { respondWith } from "./ApiReference/EncodedDocument.ts"
import { pageHeaders } from "./securityHeaders.ts"

/** The two routes. */
export const layer = HttpRouter.use((router) =>
  Effect.gen(function* () {
    // Not interruptible: a client that disconnects must not leave an interrupted result to all later ones.
    const reference = yield* Effect.cached(Effect.uninterruptible(renderInWorker))
    yield* router.add(
      "GET",
      "/openapi.json",
      Effect.gen(function* () {
        return respondWith((yield* reference).openApi, yield* HttpServerRequest.HttpServerRequest, {})
      })
    )
    yield* router.add(
      "GET",
      "/docs",
      Effect.gen(function* () {
        const { document, policy } = (yield* reference).page
        const request = yield* HttpServerRequest.HttpServerRequest
        return respondWith(document, request, { ...pageHeaders, "content-security-policy": policy })
      })
    )
  })
)
