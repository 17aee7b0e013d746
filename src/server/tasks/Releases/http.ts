import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { ReleasePage } from "../../../api/Comparisons.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { Releases } from "../Releases.ts"

const respondReleasePage = jsonResponse(ReleasePage)

/** The handlers of the `releases` group. */
export const ReleasesHttp = HttpApiBuilder.group(
  Api,
  "releases",
  Effect.fnUntraced(function* (handlers) {
    const releases = yield* Releases
    return handlers.handleAll({
      list: ({ params, query }) =>
        Effect.flatMap(releases.list(params.id, query), ({ items, next_cursor }) =>
          respondReleasePage({ releases: items, next_cursor })
        ),
      getChanges: ({ params, query }) => releases.changes(params.id, query.since),
      create: ({ params, payload }) => releases.create(params.id, payload)
    })
  })
)
