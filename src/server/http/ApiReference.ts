/**
 * `/openapi.json` and `/docs`: the OpenAPI document, and a page that renders it. Both are made at the first request, and the code that makes
 * them is loaded then: the page's script alone is 3 MB of source, which would take 15 MB of every process.
 */
import { Effect, Scope } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { respondWith } from "./ApiReference/EncodedDocument.ts"
import { pageHeaders } from "./securityHeaders.ts"

const render = Effect.promise(() => import("./ApiReference/render.ts"))

/** The two routes. */
export const layer = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    // Not interruptible: a client that disconnects must not leave an interrupted result to all later ones.
    const document = yield* Effect.cached(
      Effect.uninterruptible(Effect.flatMap(render, ({ makeDocument }) => makeDocument))
    )
    const page = yield* Effect.cached(
      Effect.uninterruptible(Effect.flatMap(render, ({ makePage }) => Scope.provide(makePage, scope)))
    )
    yield* router.add(
      "GET",
      "/openapi.json",
      Effect.gen(function* () {
        return respondWith(yield* document, yield* HttpServerRequest.HttpServerRequest, {})
      })
    )
    yield* router.add(
      "GET",
      "/docs",
      Effect.gen(function* () {
        const { document, policy } = yield* page
        const request = yield* HttpServerRequest.HttpServerRequest
        return respondWith(document, request, { ...pageHeaders, "content-security-policy": policy })
      })
    )
  })
)
