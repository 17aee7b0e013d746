import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { Grants } from "../Grants.ts"

/** The handlers of `/v1/grants`. */
export const GrantsHttp = HttpApiBuilder.group(
  Api,
  "grants",
  Effect.fnUntraced(function* (handlers) {
    const grants = yield* Grants
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(grants.list(query), ({ items, next_cursor }) => ({ grants: items, next_cursor })),
      get: ({ params }) => grants.get(params.id),
      revoke: ({ params }) => grants.revoke(params.id)
    })
  })
)
