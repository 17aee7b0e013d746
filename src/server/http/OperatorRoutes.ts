import { Effect, Layer, Option, Redacted } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { InvalidApiKey, NotFound, Unavailable } from "../../api/Problems.ts"
import { RULES_SCHEMA_FILE, rulesFileJsonSchema } from "../../api/RulesFile.ts"
import { makeReadiness } from "../store/migrate.ts"
import * as ApiReference from "./ApiReference.ts"
import { problemResponse } from "./problemResponse.ts"
import { Metrics } from "../observability/Metrics.ts"
import { constantTimeEqual } from "../secrets/constantTimeEqual.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { HEALTHY } from "./listen.ts"
import { Stopping } from "./Stopping.ts"

/** The path of the public keys. */
const PUBLIC_KEYS_PATH = "/.well-known/jwks.json"

/** `/healthz`: 200 as soon as the process listens. It does not check the database, whose failure is no reason to restart the process. */
const layerHealth = HttpRouter.add("GET", "/healthz", HttpServerResponse.jsonUnsafe(HEALTHY))

/** `/readyz`: 200 if the database responds and has every migration of this version, else 503, and while the service stops. */
const layerReady = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const stopping = yield* Stopping
    const ready = yield* makeReadiness
    yield* router.add(
      "GET",
      "/readyz",
      Effect.flatMap(ready, (isReady) =>
        stopping.isStopping
          ? problemResponse(new Unavailable({ detail: "The service is stopping." }))
          : isReady
            ? Effect.succeed(HttpServerResponse.jsonUnsafe({ status: "ready" }))
            : problemResponse(new Unavailable({ detail: "The database is unavailable or not migrated." }))
      )
    )
  })
)

/** `/metrics`: Prometheus text, for requests with the metrics token. 404 if no token is configured. */
const layerMetrics = (token: Option.Option<Redacted.Redacted<string>>) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      yield* router.add(
        "GET",
        "/metrics",
        Effect.gen(function* () {
          if (Option.isNone(token)) {
            return yield* problemResponse(
              new NotFound({ detail: "Metrics are disabled. Set COUNTERSIGN_METRICS_TOKEN to enable them." })
            )
          }
          const { headers } = yield* HttpServerRequest.HttpServerRequest
          // Schemes have no case (RFC 9110, 11.1).
          const given = (headers["authorization"] ?? "").replace(/^bearer +/i, "Bearer ")
          if (!constantTimeEqual(given, `Bearer ${Redacted.value(token.value)}`)) {
            return yield* problemResponse(
              new InvalidApiKey({ detail: "Send the metrics token as a bearer token." })
            )
          }
          const text = yield* metrics.text
          return HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })
        })
      )
    })
  )

/** The JSON Schema of rules files, for editors, which send no API key. */
const layerRulesSchema = HttpRouter.use((router) => {
  let text: string | undefined
  const respond = Effect.sync(() =>
    HttpServerResponse.text((text ??= JSON.stringify(rulesFileJsonSchema())), {
      contentType: "application/schema+json",
      headers: { "cache-control": "public, max-age=3600" }
    })
  )
  return router.add("GET", `/${RULES_SCHEMA_FILE}`, respond)
})

/** `/.well-known/jwks.json`: the public keys that verify tickets and webhooks (RFC 7517), newest first. */
const layerPublicKeys = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { publicKeys } = yield* SecretBox
    const response = HttpServerResponse.jsonUnsafe(
      { keys: publicKeys },
      { contentType: "application/jwk-set+json", headers: { "cache-control": "public, max-age=600" } }
    )
    yield* router.add("GET", PUBLIC_KEYS_PATH, response)
  })
)

/** Routes for operators, editors and tools, outside the API contract. */
export const layer = (options: { readonly metricsToken: Option.Option<Redacted.Redacted<string>> }) =>
  Layer.mergeAll(
    layerHealth,
    layerReady,
    ApiReference.layer,
    layerRulesSchema,
    layerPublicKeys,
    layerMetrics(options.metricsToken)
  )
