import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { ApiKeyPage } from "../../../api/ApiKeys.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { ApiKeys } from "../ApiKeys.ts"

const respondApiKeyPage = jsonResponse(ApiKeyPage)

/** The handlers of `/v1/api-keys`. */
export const ApiKeysHttp = HttpApiBuilder.group(
  Api,
  "apiKeys",
  Effect.fnUntraced(function* (handlers) {
    const keys = yield* ApiKeys
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.flatMap(keys.list(query), ({ items, next_cursor }) =>
          respondApiKeyPage({ keys: items, next_cursor })
        ),
      create: ({ payload }) =>
        Effect.map(keys.create(payload), ({ key, secret }) => ({ key, secret: Redacted.value(secret) })),
      get: ({ params }) => keys.get(params.id),
      update: ({ params, payload }) => keys.update(params.id, payload),
      verifyEmail: ({ params }) => keys.verifyEmail(params.id),
      revoke: ({ params, query }) => keys.revoke(params.id, { made_keys: query.made_keys ?? "revoke" })
    })
  })
)
