/**
 * `/openapi.json` and `/docs`: the OpenAPI document, and a page that renders it. Both are rendered at the first
 * request, in a worker thread.
 */
import { Cache, Duration, Effect, Exit } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { LoopTurns } from "../admission/LoopTurns.ts"
import { renderInWorker } from "./ApiReference/renderInWorker.ts"
import { respondWith } from "./ApiReference/EncodedDocument.ts"
import { ClientAddress } from "./ClientAddress.ts"
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
    const client = yield* ClientAddress
    const turns = yield* LoopTurns
    /**
     * The documents, at the next turn of the client's address: writing a document of 3 MB to a socket takes up to 2 ms, and
     * many requests may wait for the same rendering.
     */
    const reference = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const rendered = yield* Cache.get(cache, "reference")
      yield* turns.take(client.of(request))
      return { request, rendered }
    })
    yield* router.add(
      "GET",
      "/openapi.json",
      Effect.map(reference, ({ rendered, request }) => respondWith(rendered.openApi, request, {}))
    )
    yield* router.add(
      "GET",
      "/docs",
      Effect.map(reference, ({ rendered, request }) =>
        respondWith(rendered.page.document, request, {
          ...pageHeaders,
          "content-security-policy": rendered.page.policy
        })
      )
    )
  })
)
