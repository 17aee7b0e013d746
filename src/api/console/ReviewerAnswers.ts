/** The answers of a reviewer model as the console lists them: with the step that each is about. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { ReviewerAnswer } from "../../domain/approvals/Reviewer.ts"
import { Actor } from "../../domain/identity/Principal.ts"
import { ReviewerAnswerId, TaskId } from "../../domain/Ids.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { page, pageQuery } from "../Pagination.ts"
import { NotFound } from "../Problems.ts"
import { reviewerAnswerFilter } from "../Reviewers.ts"
import { CONSOLE_PATH } from "./consolePath.ts"

/** The step of an answer, and the decision of a person about it. */
export const AnsweredStep = Schema.Struct({
  /** JSON text. Null: there are none, or they are larger than `MAX_CONTEXT_BYTES`. */
  arguments_json: Schema.NullOr(Schema.String),
  arguments_too_large: Schema.Boolean,
  /** The rule's sentence about the step. Null: the rule has no template, or no approval was requested. */
  rule_summary: Schema.NullOr(Schema.String),
  /** The person who decided. Null: no person did. */
  decided_by: Schema.NullOr(Actor),
  comment: Schema.NullOr(Schema.String)
}).annotate({ identifier: "AnsweredStep" })
export type AnsweredStep = typeof AnsweredStep.Type

export const ReviewerAnswerRow = Schema.Struct({
  ...ReviewerAnswer.fields,
  /** Null: the step is being deleted. */
  step: Schema.NullOr(AnsweredStep)
}).annotate({ identifier: "ReviewerAnswerRow" })
export type ReviewerAnswerRow = typeof ReviewerAnswerRow.Type

/** The answers of reviewer models. */
export class ConsoleReviewerAnswersApi extends HttpApiGroup.make("reviewer_answers")
  .add(
    HttpApiEndpoint.get("list", "/:task_id", {
      params: { task_id: TaskId },
      query: { ...pageQuery(ReviewerAnswerId), ...reviewerAnswerFilter },
      success: page("answers", ReviewerAnswerRow, ReviewerAnswerId),
      error: NotFound
    }).middleware(requires("approvals.read"))
  )
  .prefix(`${CONSOLE_PATH}/reviewer-answers`)
  .middleware(RequestBody)
  .middleware(Authentication) {}
