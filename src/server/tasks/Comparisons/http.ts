import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { ComparisonPage } from "../../../api/Comparisons.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { Comparisons } from "../Comparisons.ts"

const respondComparisonPage = jsonResponse(ComparisonPage)

/** The handlers of the `comparisons` group. */
export const ComparisonsHttp = HttpApiBuilder.group(
  Api,
  "comparisons",
  Effect.fnUntraced(function* (handlers) {
    const comparisons = yield* Comparisons
    return handlers.handleAll({
      list: ({ params, query }) =>
        Effect.flatMap(comparisons.list(params.id, query), ({ items, next_cursor }) =>
          respondComparisonPage({ comparisons: items, next_cursor })
        ),
      create: ({ params, payload }) =>
        Effect.map(comparisons.create(params.id, payload), (comparison) => ({ comparison })),
      get: ({ params, query }) => comparisons.get(params.id, query),
      cancel: ({ params }) => Effect.map(comparisons.cancel(params.id), (comparison) => ({ comparison }))
    })
  })
)
