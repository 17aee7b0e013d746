import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { ApprovalPage } from "../../../api/AgentApprovals.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { Approvals } from "../Approvals.ts"

const respondApprovalPage = jsonResponse(ApprovalPage)

/** The handlers of `/v1/agent-approvals`. */
export const ApprovalsHttp = HttpApiBuilder.group(
  Api,
  "approvals",
  Effect.fnUntraced(function* (handlers) {
    const approvals = yield* Approvals
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.flatMap(approvals.list(query), ({ items, next_cursor }) =>
          respondApprovalPage({ approvals: items, next_cursor })
        ),
      get: ({ params }) => approvals.get(params.id),
      decide: ({ params, payload }) => approvals.decide(params.id, payload)
    })
  })
)
