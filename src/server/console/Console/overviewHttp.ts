import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { Overview } from "../Overview.ts"

/** The handlers of `/console/overview`. */
export const ConsoleOverviewHttp = HttpApiBuilder.group(
  ConsoleApi,
  "overview",
  Effect.fnUntraced(function* (handlers) {
    const overview = yield* Overview
    return handlers.handleAll({
      approvals: ({ query }) => overview.approvals(query.period),
      feedback: ({ query }) => overview.feedback(query.period),
      deliveries: ({ query }) => overview.deliveries(query.period)
    })
  })
)
