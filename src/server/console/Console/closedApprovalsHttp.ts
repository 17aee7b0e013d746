import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { ClosedApprovals } from "../ClosedApprovals.ts"

/** The handlers of `/console/closed-approvals`. */
export const ConsoleClosedApprovalsHttp = HttpApiBuilder.group(
  ConsoleApi,
  "closed_approvals",
  Effect.fnUntraced(function* (handlers) {
    const closed = yield* ClosedApprovals
    return handlers.handleAll({ list: ({ query }) => closed.list(query) })
  })
)
