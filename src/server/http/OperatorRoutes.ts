import { Effect, Layer, Option, Redacted } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { openApiDocument } from "../../api/openApiDocument.ts"
import { InvalidApiKey, NotFound, Unavailable } from "../../api/Problems.ts"
import { makeReadiness } from "../store/Database/migrate.ts"
import { problemResponse } from "./problemResponse.ts"
import { Metrics } from "../observability/Metrics.ts"
import { constantTimeEqual } from "../secrets/constantTimeEqual.ts"
import { HEALTHY } from "./listen.ts"

/**
 * `/healthz`: the process answers, from the moment it listens. It says nothing of the store: a store that is away is no reason to
 * restart this.
 */
const layerHealth = HttpRouter.add("GET", "/healthz", HttpServerResponse.jsonUnsafe(HEALTHY))

/** `/readyz`: the store is within reach and has every migration that this code knows. */
const layerReady = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const ready = yield* makeReadiness
    yield* router.add(
      "GET",
      "/readyz",
      Effect.flatMap(ready, (yes) =>
        yes
          ? Effect.succeed(HttpServerResponse.jsonUnsafe({ status: "ready" }))
          : problemResponse(new Unavailable({ detail: "The store is out of reach, or lacks a migration" }))
      )
    )
  })
)

/** `/openapi.json`: the contract as a document, made when it is first asked for. */
const layerDocument = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const document = yield* Effect.cached(Effect.sync(() => HttpServerResponse.jsonUnsafe(openApiDocument())))
    yield* router.add("GET", "/openapi.json", document)
  })
)

/** `/metrics`: Prometheus text for the bearer of the token; there is no such path where no token is set. */
const layerMetrics = (token: Option.Option<Redacted.Redacted<string>>) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      yield* router.add(
        "GET",
        "/metrics",
        Effect.gen(function* () {
          if (Option.isNone(token)) {
            return yield* problemResponse(new NotFound({ detail: "Metrics are off" }))
          }
          const { headers } = yield* HttpServerRequest.HttpServerRequest
          if (!constantTimeEqual(headers["authorization"] ?? "", `Bearer ${Redacted.value(token.value)}`)) {
            return yield* problemResponse(new InvalidApiKey({ detail: "Send the metrics token as bearer" }))
          }
          const text = yield* metrics.text
          return HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })
        })
      )
    })
  )

/** The paths beside the contract that operators use. */
export const layer = (options: { readonly metricsToken: Option.Option<Redacted.Redacted<string>> }) =>
  Layer.mergeAll(layerHealth, layerReady, layerDocument, layerMetrics(options.metricsToken))
