import { Effect, Layer, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { LeakedKeysApi, ReportLimit } from "../../api/LeakedKeys.ts"
import { ApiKeys } from "../identity/ApiKeys.ts"
import { ClientAddress } from "./ClientAddress.ts"
import * as ProblemFrame from "./ProblemFrame.ts"
import { RateLimits } from "../admission/RateLimits.ts"
import * as RequestBody from "./RequestBody.ts"

const layerReportLimit = Layer.effect(
  ReportLimit,
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const client = yield* ClientAddress
    return ReportLimit.of((operation) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
        Effect.andThen(limits.admitLeakReport(client.of(request)), operation)
      )
    )
  })
)

/**
 * `/leaked-keys`: revokes the keys whose texts are reported. It needs no key and no signature, because the text of a
 * key suffices as proof: its holder can do more with it than revoke it. The response is the same whether a key existed
 * or not.
 */
export const layer = HttpApiBuilder.layer(LeakedKeysApi).pipe(
  Layer.provide(
    HttpApiBuilder.group(
      LeakedKeysApi,
      "leaked_keys",
      Effect.fnUntraced(function* (handlers) {
        const keys = yield* ApiKeys
        return handlers.handleAll({
          report: Effect.fnUntraced(function* ({ payload }) {
            yield* keys.revokeLeaked(payload.map(({ token }) => Redacted.make(token.trim())))
          })
        })
      })
    )
  ),
  Layer.provide([layerReportLimit, RequestBody.layer, ProblemFrame.layer])
)
