import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { FeedbackRows } from "../FeedbackRows.ts"

/** The handlers of `/console/feedback-rows`. */
export const ConsoleFeedbackHttp = HttpApiBuilder.group(
  ConsoleApi,
  "feedback_rows",
  Effect.fnUntraced(function* (handlers) {
    const rows = yield* FeedbackRows
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(rows.list(query), ({ items, next_cursor }) => ({ feedback: items, next_cursor }))
    })
  })
)
