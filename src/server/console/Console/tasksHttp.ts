import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { TaskRows } from "../../tasks/TaskRows.ts"

/** The handlers of `/console/task-rows`. */
export const ConsoleTasksHttp = HttpApiBuilder.group(
  ConsoleApi,
  "task_rows",
  Effect.fnUntraced(function* (handlers) {
    const rows = yield* TaskRows
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(rows.list(query), ({ items, next_cursor }) => ({ tasks: items, next_cursor }))
    })
  })
)
