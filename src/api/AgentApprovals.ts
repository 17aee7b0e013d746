import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Approval, ApprovalStatus, Decision } from "../domain/approvals/Approval.ts"
import { ApprovalId, SessionId, TaskId } from "../domain/Ids.ts"
import { ApprovalAlreadyDecided, ApprovalExpired } from "./ApprovalProblems.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { AdminRequired, NotFound, SelfApproval } from "./Problems.ts"
import { Comment } from "./Text.ts"

export const DecideRequest = Schema.Struct({
  decision: Decision.annotateKey({ description: "The verdict." }),
  comment: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description: "A comment for the record, at most 4,000 characters. Default null."
  })
}).annotate({
  identifier: "DecideRequest",
  description: "A person's verdict. It is attributed to the API key that sends it."
})
export type DecideRequest = typeof DecideRequest.Type

/** The filters of the list. */
export const approvalFilter = {
  status: Schema.optionalKey(ApprovalStatus).annotateKey({ description: "Only approvals of this status." }),
  session_id: Schema.optionalKey(SessionId).annotateKey({
    description: "Only approvals of this agent session."
  }),
  task_id: Schema.optionalKey(TaskId).annotateKey({ description: "Only approvals of this task." })
}
export type ApprovalFilter = Schema.Struct.Type<typeof approvalFilter>

/** A page of approvals. */
export const ApprovalPage = page("approvals", Approval, ApprovalId)

export class AgentApprovalsApi extends HttpApiGroup.make("approvals")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(ApprovalId), ...approvalFilter },
      success: ApprovalPage
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listApprovals",
          summary: "List approvals",
          description: "Lists approvals, newest first. Filters can be combined."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: ApprovalId.annotateKey({ description: "The approval's ID." }) },
      success: Approval,
      error: NotFound
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getApproval",
          summary: "Get an approval",
          description: "Returns one approval, with the arguments of its step."
        })
      ),
    HttpApiEndpoint.post("decide", "/:id/decide", {
      params: { id: ApprovalId.annotateKey({ description: "The approval's ID." }) },
      payload: DecideRequest,
      success: Approval,
      error: [NotFound, SelfApproval, AdminRequired, ApprovalAlreadyDecided, ApprovalExpired]
    })
      .middleware(requires("approvals.decide"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "decideApproval",
          summary: "Decide an approval",
          description: [
            "Approves or rejects a pending approval. The first decision closes it; later ones get 409 with the approval as it is.",
            "Repeating your own decision is idempotent.",
            "In stage `admin` the key also needs `approvals.admin`. The key that submitted the step, and keys that it created, cannot decide it unless the rule sets `self_approval`."
          ].join(" ")
        })
      )
  )
  .prefix("/v1/agent-approvals")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Approvals",
      description:
        "An approval asks people to allow or reject one step of an agent. One decision closes it, however many are made concurrently; without a decision in time, the rule's timeout action applies."
    })
  ) {}
