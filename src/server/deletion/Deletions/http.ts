import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { Deletions } from "../Deletions.ts"

/** The handlers of deletions and erasures. */
export const DeletionsHttp = HttpApiBuilder.group(
  Api,
  "deletions",
  Effect.fnUntraced(function* (handlers) {
    const deletions = yield* Deletions
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(deletions.list(query), ({ items, next_cursor }) => ({ deletions: items, next_cursor })),
      get: ({ params }) => deletions.get(params.id),
      erase: ({ payload }) => deletions.erase(payload)
    })
  })
)
