import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { RunRows } from "../../tasks/RunRows.ts"

/** The handlers of `/console/run-rows`. */
export const ConsoleRunsHttp = HttpApiBuilder.group(
  ConsoleApi,
  "run_rows",
  Effect.fnUntraced(function* (handlers) {
    const rows = yield* RunRows
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(rows.list(query), ({ items, next_cursor }) => ({ runs: items, next_cursor }))
    })
  })
)
