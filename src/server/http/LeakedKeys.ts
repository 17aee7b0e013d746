import { Effect, Layer, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { LeakedKeysApi } from "../../api/LeakedKeys.ts"
import { ApiKeys } from "../identity/ApiKeys.ts"
import { ClientAddress } from "./ClientAddress.ts"
import * as ProblemFrame from "./ProblemFrame.ts"
import { RateLimits } from "./RateLimits.ts"
import * as RequestBody from "./RequestBody.ts"

/**
 * `/leaked-keys`: revokes the keys whose texts are reported. It needs no key and no signature, because the text of a key is proof enough: who
 * has it can do more than revoke it. The response is the same whether a key existed or not.
 */
export const layer = HttpApiBuilder.layer(LeakedKeysApi).pipe(
  Layer.provide(
    HttpApiBuilder.group(
      LeakedKeysApi,
      "leaked_keys",
      Effect.fnUntraced(function* (handlers) {
        const keys = yield* ApiKeys
        const limits = yield* RateLimits
        const client = yield* ClientAddress
        return handlers.handleAll({
          report: Effect.fnUntraced(function* ({ payload }) {
            yield* limits.admitLeakReport(client.of(yield* HttpServerRequest.HttpServerRequest))
            yield* keys.revokeLeaked(payload.map(({ token }) => Redacted.make(token.trim())))
          })
        })
      })
    )
  ),
  Layer.provide([RequestBody.layer, ProblemFrame.layer])
)
