/**
 * `/openapi.json` and `/docs`: the OpenAPI document, and a page that renders it. Both are made at the first request, and the code that makes
 * them is loaded then: the page's script alone is 3 MB of source, which would take 15 MB of every process.
 */
import { Effect, Scope } from "effect"
import { HttpRouter } from "effect/http"

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
    yield* router.add("GET", "/openapi.json", document)
    yield* router.add("GET", "/docs", Effect.flatten(page))
  })
)
