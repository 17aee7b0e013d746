import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { documentedEnum } from "../domain/documentedEnum.ts"
import { Execution, Resolution } from "../domain/approvals/Execution.ts"
import { ClaimId, SessionId } from "../domain/Ids.ts"
import { ExecutionNotUnknown } from "./ApprovalProblems.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { NotFound, SelfApproval, SessionClosed } from "./Problems.ts"
import { Comment, Name } from "./Text.ts"

export const ResolveRequest = Schema.Struct({
  resolution: Resolution.annotateKey({ description: "What you found, or allow." }),
  comment: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description:
      "How you know, for the record, at most 4,000 characters. Secrets in it are redacted. Default null."
  })
}).annotate({
  identifier: "ResolveRequest",
  description: "A person's resolution of an unknown execution. It is attributed to the API key that sends it."
})
export type ResolveRequest = typeof ResolveRequest.Type

/** The filters of the list. */
export const executionFilter = {
  state: Schema.optionalKey(
    documentedEnum({
      unknown: "A person has to resolve them.",
      retryable: "A person allowed another attempt, which nobody has claimed yet.",
      completed: "A late outcome was reported, or a person found it."
    })
  ).annotateKey({ description: "Only executions in this state." }),
  session_id: Schema.optionalKey(SessionId).annotateKey({
    description: "Only executions of this agent session."
  }),
  tool: Schema.optionalKey(Name).annotateKey({ description: "Only executions of this tool." })
}
export type ExecutionFilter = Schema.Struct.Type<typeof executionFilter>

/** A page of executions. */
export const ExecutionPage = page("executions", Execution, ClaimId)

export class ExecutionsApi extends HttpApiGroup.make("executions")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(ClaimId), ...executionFilter },
      success: ExecutionPage
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listExecutions",
          summary: "List uncertain executions",
          description:
            "Lists the executions of claimed steps whose outcome is unknown, or was until it was reported late or resolved, newest claim first. `state=unknown` lists those that people have to resolve. Filters can be combined."
        })
      ),
    HttpApiEndpoint.get("get", "/:claim_id", {
      params: { claim_id: ClaimId.annotateKey({ description: "The claim's ID." }) },
      success: Execution,
      error: NotFound
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getExecution",
          summary: "Get an uncertain execution",
          description:
            "Returns one execution whose outcome is or was unknown, with the arguments of its step. An attempt that was followed by another is not found: the step has one execution, its latest attempt."
        })
      ),
    HttpApiEndpoint.post("resolve", "/:claim_id/resolve", {
      params: { claim_id: ClaimId.annotateKey({ description: "The claim's ID." }) },
      payload: ResolveRequest,
      success: Execution,
      error: [NotFound, SelfApproval, SessionClosed, ExecutionNotUnknown]
    })
      .middleware(requires("approvals.decide"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "resolveExecution",
          summary: "Resolve an unknown execution",
          description: [
            "Records what a person found out about a step whose outcome is unknown, as its outcome; or allows one more attempt with `retry`.",
            "A `retry` can be replaced by another resolution until the next attempt is claimed. In a closed session no attempt can follow, so `retry` fails with 409 `SESSION_CLOSED`.",
            "The key that claimed the step, and keys that it created, cannot resolve it. Repeating your own resolution is idempotent. If the agent reported the outcome meanwhile, or another person resolved it, the answer is 409 `EXECUTION_NOT_UNKNOWN` with the execution."
          ].join(" ")
        })
      )
  )
  .prefix("/v1/executions")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Executions",
      description:
        "An agent claims a step before it executes it, and reports the outcome. If the claim ends without an outcome, the execution is unknown until a person resolves it."
    })
  ) {}
