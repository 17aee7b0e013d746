import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Approval, ApprovalStatus, Decision } from "../domain/approvals/Approval.ts"
import { ProposedArguments } from "../domain/approvals/CounterProposal.ts"
import { Grant } from "../domain/approvals/Grant.ts"
import { ApprovalId, SessionId, TaskId } from "../domain/Ids.ts"
import { ApprovalAlreadyDecided, ApprovalExpired } from "./ApprovalProblems.ts"
import { Authentication, requires } from "./Authorization.ts"
import { NewGrant } from "./Grants.ts"
import { BodyLimit, RequestBody } from "./Middleware.ts"
import { DecideManyRequest, DecisionResults, MAX_DECISIONS } from "./DecisionBatch.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  AdminRequired,
  GrantNotAllowed,
  GroupRequired,
  LimitReached,
  NotFound,
  SamePerson,
  SelfApproval
} from "./Problems.ts"
import { Comment } from "./Text.ts"

export const DecideRequest = Schema.Struct({
  decision: Decision.annotateKey({ description: "The verdict." }),
  comment: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description: "A comment for the record, at most 4,000 characters. Default null."
  }),
  proposed_arguments: Schema.optionalKey(ProposedArguments).annotateKey({
    description:
      "Only with `reject`: the arguments with which the agent may try again, a JSON object that differs from the step's arguments. They are passed to the agent as they are."
  }),
  grant: Schema.optionalKey(NewGrant).annotateKey({
    description:
      "A standing grant to make with the approval, which allows further steps of the session. Only with `approve`, and only if one person's approval is enough. If it cannot be made, the approval is not decided either."
  })
}).annotate({
  identifier: "DecideRequest",
  description: "A person's verdict. It is attributed to the API key that sends it."
})
export type DecideRequest = typeof DecideRequest.Type

export const DecidedApproval = Schema.Struct({
  ...Approval.fields,
  grant: Schema.optionalKey(Grant).annotateKey({
    description: "The grant that was made with it. Absent if the request asked for none."
  })
}).annotate({
  identifier: "DecidedApproval",
  description: "The approval after a decision, with the grant that was made with it."
})
export type DecidedApproval = typeof DecidedApproval.Type

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
      success: DecidedApproval,
      error: [
        NotFound,
        SelfApproval,
        AdminRequired,
        GroupRequired,
        SamePerson,
        ApprovalAlreadyDecided,
        ApprovalExpired,
        GrantNotAllowed,
        LimitReached
      ]
    })
      .middleware(requires("approvals.decide"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "decideApproval",
          summary: "Decide an approval",
          description: [
            "Approves or rejects a pending approval. A rejection closes it, and so does the approval that completes its quorum, by default the first; later decisions get 409 with the approval as it is.",
            "An approval before the last is recorded in `votes`, and the approval stays pending: whoever has approved can still reject it.",
            "Repeating your own decision is idempotent. A grant can only be made with the decision: repeating it with a `grant` that it did not have gets 409.",
            "A rejection can propose other arguments: one later step of the session with the same tool, action class and exactly these arguments is then allowed within an hour, if you could have approved it alone. Body limit: 4 MiB.",
            "In stage `reviewer` the key needs one of the groups that the quorum names, unless it names none. In stage `admin` the key also needs `approvals.admin`, and counts for any group. The key that submitted the step, and keys that it created, cannot decide it unless the rule sets `self_approval`."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.post("decideMany", "/decide", {
      payload: DecideManyRequest,
      success: DecisionResults
    })
      .middleware(requires("approvals.decide"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "decideApprovals",
          summary: "Decide several approvals",
          description: [
            `Approves or rejects up to ${MAX_DECISIONS} approvals with one comment, each under the checks of a single decision and independently of the others.`,
            "The response is 200 with a result for each: the approval, or the problem that a single decision would have got.",
            "Repeating the request is idempotent, so the approvals that a broken connection left open can be decided by sending it again.",
            "It counts as one request for each approval towards the rate limits: it is accepted if one request is left, and later requests wait for the rest."
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
        "An approval asks people to allow or reject one step of an agent. One rejection closes it, or as many approvals as its rule asks for, however many are made concurrently; without a decision in time, the rule's timeout action applies."
    })
  ) {}
