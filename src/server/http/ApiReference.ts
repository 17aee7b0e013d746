/**
 * `/openapi.json` and `/docs`: the OpenAPI document, and a page that renders it. Both are rendered at the first
 * request, in a worker thread.
 */
import { Cache, Duration, Effect, Exit } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { renderInWorker } from "./ApiReference/renderInWorker.ts"
import { respondWith } from "./ApiReference/EncodedDocument.ts"
import { pageHeaders } from "./securityHeaders.ts"

/** How long after a failure requests fail without another attempt: each attempt costs 0.3 s of a processor. */
const RETRY_DELAY = Duration.seconds(10)

/** The two routes. */
export const layer = HttpRouter.use((router) =>
  Effect.gen(function* () {
    // Not interruptible: a client that disconnects must not leave an interrupted result to all later ones.
    const cache = yield* Cache.makeWith((_: "reference") => Effect.uninterruptible(renderInWorker), {
      capacity: 1,
      timeToLive: (exit) => (Exit.isSuccess(exit) ? Duration.infinity : RETRY_DELAY)
    })
    const reference = Cache.get(cache, "reference")
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
