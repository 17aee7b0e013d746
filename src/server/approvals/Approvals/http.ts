import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { ApprovalPage } from "../../../api/AgentApprovals.ts"
import { Authorized } from "../../../api/Authorization.ts"
import { DecisionResults } from "../../../api/DecisionBatch.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { RequestCharges } from "../../identity/RequestCharges.ts"
import { Approvals } from "../Approvals.ts"

const respondApprovalPage = jsonResponse(ApprovalPage)
const respondResults = jsonResponse(DecisionResults)

/** The handlers of `/v1/agent-approvals`. */
export const ApprovalsHttp = HttpApiBuilder.group(
  Api,
  "approvals",
  Effect.fnUntraced(function* (handlers) {
    const approvals = yield* Approvals
    const charges = yield* RequestCharges
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.flatMap(approvals.list(query), ({ items, next_cursor }) =>
          respondApprovalPage({ approvals: items, next_cursor })
        ),
      get: ({ params }) => approvals.get(params.id),
      decide: ({ params, payload }) => approvals.decide(params.id, payload),
      decideMany: ({ payload }) =>
        Authorized("approvals.decide").pipe(
          // The first of them was counted when the request was admitted.
          Effect.flatMap((principal) => charges.charge(principal, payload.approval_ids.length - 1)),
          Effect.andThen(approvals.decideMany(payload)),
          Effect.flatMap((results) => respondResults({ results }))
        )
    })
  })
)
