import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { RunPage } from "../../../api/Runs.ts"
import { RunImports } from "../RunImports.ts"
import { RunLog } from "../RunLog.ts"

const respondRunPage = jsonResponse(RunPage)

/** The handlers of the `runs` group. */
export const RunsHttp = HttpApiBuilder.group(
  Api,
  "runs",
  Effect.fnUntraced(function* (handlers) {
    const runs = yield* RunLog
    const imports = yield* RunImports
    return handlers.handleAll({
      list: ({ params, query }) =>
        Effect.flatMap(runs.list(params.id, query), ({ items, next_cursor }) =>
          respondRunPage({ runs: items, next_cursor })
        ),
      get: ({ params }) => runs.get(params.id),
      import: ({ params, payload }) => imports.import(params.id, payload.runs),
      remove: ({ params }) => runs.remove(params.id),
      dismiss: ({ params }) => runs.dismissReview(params.id)
    })
  })
)
