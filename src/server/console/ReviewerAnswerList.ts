import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { AnsweredStep, ReviewerAnswerRow } from "../../api/console/ReviewerAnswers.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import type { NotFound } from "../../api/Problems.ts"
import type { ReviewerAnswerFilter } from "../../api/Reviewers.ts"
import type { ReviewerAnswer } from "../../domain/approvals/Reviewer.ts"
import { actorOf } from "../../domain/identity/Principal.ts"
import { KeyId, type OrgId, ReviewerAnswerId, type TaskId } from "../../domain/Ids.ts"
import { Reviewers } from "../approvals/Reviewers.ts"
import { textArray } from "../store/pgArrays.ts"
import type { Page } from "../store/Pagination.ts"
import { rowsOf } from "../store/rows.ts"
import { textWithinLimit } from "./ApprovalFeed/contextRows.ts"

/** The answers of reviewer models beside the steps that they are about. */
export class ReviewerAnswerList extends Context.Service<
  ReviewerAnswerList,
  {
    /** Lists the answers that may be shown, newest first. */
    readonly list: (
      id: TaskId,
      request: PageRequest<ReviewerAnswerId> & ReviewerAnswerFilter
    ) => Effect.Effect<Page<ReviewerAnswerRow, ReviewerAnswerId>, NotFound, Authorized<"approvals.read">>
  }
>()("countersign/server/console/ReviewerAnswerList") {
  static readonly layer = Layer.effect(
    ReviewerAnswerList,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const reviewers = yield* Reviewers
      return ReviewerAnswerList.of({
        list: Effect.fn("ReviewerAnswerList.list")(function* (id, request) {
          const { org_id } = yield* Authorized("approvals.read")
          const { items, next_cursor } = yield* reviewers.answers(id, request)
          const steps = yield* Effect.orDie(readSteps(sql, org_id, items))
          return {
            items: items.map((answer) => ({ ...answer, step: steps.get(answer.id) ?? null })),
            next_cursor
          }
        })
      })
    })
  )
}

const stepRows = rowsOf(
  Schema.Struct({
    answer_id: ReviewerAnswerId,
    arguments: Schema.NullOr(Schema.String),
    arguments_too_large: Schema.Boolean,
    rule_summary: Schema.NullOr(Schema.String),
    decided_by_id: Schema.NullOr(KeyId),
    decided_by_name: Schema.NullOr(Schema.String),
    comment: Schema.NullOr(Schema.String)
  })
)

/** Reads the steps of a page of answers. */
const readSteps = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  answers: ReadonlyArray<ReviewerAnswer>
) {
  if (answers.length === 0) return new Map<ReviewerAnswerId, AnsweredStep>()
  const rows = yield* stepRows.all(sql`
    SELECT
      answer_id,
      ${sql.literal(textWithinLimit("step.arguments"))} AS arguments,
      step.arguments IS NOT NULL AND ${sql.literal(textWithinLimit("step.arguments"))} IS NULL AS arguments_too_large,
      rule_summary,
      decided_by_id,
      decided_by_name,
      comment
    FROM unnest(
      ${textArray(answers.map(({ id }) => id))}::text[],
      ${textArray(answers.map(({ session_id }) => session_id))}::text[],
      ${textArray(answers.map(({ step_id }) => step_id))}::text[]
    ) AS answered (answer_id, session_id, step_id)
      JOIN governed_steps AS step ON step.org_id = ${org_id}
        AND step.session_id = answered.session_id
        AND step.step_id = answered.step_id
      LEFT JOIN approvals ON approvals.org_id = ${org_id}
        AND approvals.approval_id = step.approval_id
  `)
  return new Map(
    rows.map((row): readonly [ReviewerAnswerId, AnsweredStep] => [
      row.answer_id,
      {
        arguments_json: row.arguments,
        arguments_too_large: row.arguments_too_large,
        rule_summary: row.rule_summary,
        decided_by: actorOf(row.decided_by_id, row.decided_by_name),
        comment: row.comment
      }
    ])
  )
})
