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

/** A person's verdict. Who decides is told by the key alone. */
export const DecideRequest = Schema.Struct({
  decision: Decision,
  comment: Schema.optionalKey(Schema.NullOr(Comment))
}).annotate({ identifier: "DecideRequest" })
export type DecideRequest = typeof DecideRequest.Type

/** Which approvals a list shows. */
export const approvalFilter = {
  status: Schema.optionalKey(ApprovalStatus),
  session_id: Schema.optionalKey(SessionId),
  task_id: Schema.optionalKey(TaskId)
}
export type ApprovalFilter = Schema.Struct.Type<typeof approvalFilter>

/** Approvals: what waits for a person, and what was decided. */
export class AgentApprovalsApi extends HttpApiGroup.make("approvals")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(ApprovalId), ...approvalFilter },
      success: page("approvals", Approval, ApprovalId)
    })
      .middleware(requires("approvals.read"))
      .annotate(
        OpenApi.Description,
        "Approvals, newest first, of one status, session or task where the query names it."
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: ApprovalId },
      success: Approval,
      error: NotFound
    })
      .middleware(requires("approvals.read"))
      .annotate(OpenApi.Description, "One approval, with the arguments of its step."),
    HttpApiEndpoint.post("decide", "/:id/decide", {
      params: { id: ApprovalId },
      payload: DecideRequest,
      success: Approval,
      error: [NotFound, SelfApproval, AdminRequired, ApprovalAlreadyDecided, ApprovalExpired]
    })
      .middleware(requires("approvals.decide"))
      .annotate(
        OpenApi.Description,
        "Approves or rejects what waits. One decision closes the approval, however many race for it; all others are 409, and show how it stands. In stage `admin` it takes `approvals.admin`, and no key decides what it asked for itself unless the rule allows that."
      )
  )
  .prefix("/v1/agent-approvals")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Approvals",
      description: "One decision closes an approval, however many race for it; silence closes it by its rule."
    })
  ) {}
