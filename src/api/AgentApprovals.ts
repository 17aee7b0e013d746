import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Approval, ApprovalStatus, Decision } from "../domain/approvals/Approval.ts"
import {
  ApprovalMessage,
  MAX_MESSAGE_RATE,
  MAX_MESSAGES,
  MESSAGE_RATE_SECONDS
} from "../domain/approvals/ApprovalMessage.ts"
import { ProposedArguments } from "../domain/approvals/CounterProposal.ts"
import { Grant } from "../domain/approvals/Grant.ts"
import { documented } from "../domain/documented.ts"
import { ApprovalId, SessionId, TaskId } from "../domain/Ids.ts"
import { ApprovalAlreadyDecided, ApprovalExpired } from "./ApprovalProblems.ts"
import { Authentication, requires, requiresEither } from "./Authorization.ts"
import { NewGrant } from "./Grants.ts"
import { BodyLimit, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { DecideManyRequest, DecisionResults, MAX_DECISIONS, withInstruction } from "./DecisionBatch.ts"
import { numberCursor, page, pageQuery } from "./Pagination.ts"
import {
  AdminRequired,
  CommentRequired,
  GrantNotAllowed,
  GroupRequired,
  LimitReached,
  NotFound,
  SamePerson,
  SelfApproval,
  SessionOfAnotherKey
} from "./Problems.ts"
import { Comment, Message } from "./Text.ts"

export const DecideRequest = Schema.Struct({
  decision: Decision.annotateKey({ description: "The verdict." }),
  comment: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description:
      "A comment for the record, at most 4,000 characters. Required with `request_changes`, for the instruction, and if `require_comment` of the approval asks for it. Default null."
  }),
  proposed_arguments: Schema.optionalKey(ProposedArguments).annotateKey({
    description:
      "Only with `reject` and `request_changes`: the arguments with which the agent may try again, a JSON object that differs from the step's arguments. They are passed to the agent as they are."
  }),
  grant: Schema.optionalKey(NewGrant).annotateKey({
    description:
      "A standing grant to make with the approval, which allows further steps of the session. Only with `approve`, and only if one person's approval is enough. If it cannot be made, the approval is not decided either."
  })
})
  .annotate({ description: "A person's verdict. It is attributed to the API key that sends it." })
  .check(withInstruction)
  .annotate({ identifier: "DecideRequest" })
export type DecideRequest = typeof DecideRequest.Type

export const NewApprovalMessage = Schema.Struct({
  text: Message.annotateKey({
    description:
      "The message: 1 to 4,000 characters, with a visible one. Secrets in it are redacted before it is stored."
  })
}).annotate({ identifier: "NewApprovalMessage", description: "A message about a pending approval." })
export type NewApprovalMessage = typeof NewApprovalMessage.Type

export const ApprovalMessages = Schema.Struct({
  messages: Schema.Array(ApprovalMessage)
    .check(documented({ maxItems: 2 * MAX_MESSAGES }))
    .annotateKey({ description: "The messages, oldest first." })
}).annotate({ identifier: "ApprovalMessages", description: "The conversation about an approval." })

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
        CommentRequired,
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
            "Approves or rejects a pending approval. `request_changes` is a rejection with an instruction for the agent: the comment. A rejection closes it, and so does the approval that completes its quorum, by default the first; later decisions get 409 with the approval as it is.",
            "An approval before the last is recorded in `votes`, and the approval stays pending: whoever has approved can still reject it.",
            "A rule can ask for a comment with rejections or with every decision: without one they get 422 `COMMENT_REQUIRED`.",
            "Repeating your own decision is idempotent. A grant can only be made with the decision: repeating it with a `grant` that it did not have gets 409.",
            "A rejection can propose other arguments: one later step of the session with the same tool, action class and exactly these arguments is then allowed within an hour, if you could have approved it alone. Body limit: 4 MiB.",
            "In stage `reviewer` the key needs one of the groups that the quorum names, unless it names none. In stage `admin` the key also needs `approvals.admin`, and counts for any group. The key that submitted the step, and keys that it created, cannot decide it unless the rule sets `self_approval`."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.get("listMessages", "/:id/messages", {
      params: { id: ApprovalId.annotateKey({ description: "The approval's ID." }) },
      query: {
        after: Schema.optionalKey(
          numberCursor(
            "Number of the last message received; only later ones are listed. Default 0.",
            "the number of a message, in decimal digits"
          )
        )
      },
      success: ApprovalMessages,
      error: [NotFound, SessionOfAnotherKey]
    })
      .middleware(requiresEither("approvals.read", "sessions.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listApprovalMessages",
          summary: "List the messages about an approval",
          description:
            "Returns the conversation of reviewers and the agent about an approval, oldest first, also after the approval has closed. With `sessions.write` alone, only of a session that belongs to the key or is shared."
        })
      ),
    HttpApiEndpoint.post("sendMessage", "/:id/messages", {
      params: { id: ApprovalId.annotateKey({ description: "The approval's ID." }) },
      headers: idempotencyHeaders,
      payload: NewApprovalMessage,
      success: ApprovalMessage.pipe(HttpApiSchema.status(201)),
      error: [NotFound, SessionOfAnotherKey, ApprovalAlreadyDecided, ApprovalExpired, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requiresEither("approvals.decide", "sessions.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "sendApprovalMessage",
          summary: "Send a message about a pending approval",
          description: [
            "Asks the agent about the step, or answers a reviewer. It decides nothing: the approval stays pending, and its windows do not move.",
            "A key with `approvals.decide` speaks as a reviewer, unless it submitted the step. That key, and the other keys of the session, speak as the agent.",
            "The agent receives the message as the event `approval:message` of its session's stream, and in `messages` of the step: a request with `wait_seconds` that waits for the decision returns at once.",
            `Each side can send ${MAX_MESSAGES} messages on one approval, and ${MAX_MESSAGE_RATE} in ${MESSAGE_RATE_SECONDS} seconds.`
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
