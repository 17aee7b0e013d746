import type { SqlClient, Statement } from "effect/sql"
import { type GivenRows, int4s, int8s, type RowInsert, texts, unnestRows } from "../../store/givenRows.ts"
import type { ChangeOf, Op } from "./Op.ts"
import type { StepReview } from "./SessionWrite.ts"
import { givenSteps, NEW_STEPS } from "./stepChange.ts"

/** The decisions of reviewer models among new steps. */
const reviewsOf = (
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>
): ReadonlyArray<{ readonly op: number; readonly review: StepReview }> =>
  ops.flatMap(({ change: { review }, op }) => (review === null ? [] : [{ op, review }]))

/** The table of the answers of reviewer models. */
const GIVEN_REVIEWS = "given_reviews"

const reviewRows = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>): GivenRows => {
  const given = reviewsOf(ops)
  const reviews = given.map(({ review }) => review)
  return {
    ops: given.map(({ op }) => op),
    columns: {
      answer_id: texts(reviews.map(({ answer_id }) => answer_id)),
      task_id: texts(reviews.map(({ task_id }) => task_id)),
      dataset_id: texts(reviews.map(({ dataset_id }) => dataset_id)),
      generation: int8s(reviews.map(({ generation }) => generation)),
      band: int4s(reviews.map(({ band }) => band)),
      calls: int4s(reviews.map(({ calls }) => calls)),
      tokens: int8s(reviews.map(({ tokens }) => tokens))
    }
  }
}

/** The answers of reviewer models that decide steps. Statements without one do not have this part. */
export const givenReviews = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>
): ReadonlyArray<Statement.Fragment> =>
  ops.length === 0
    ? []
    : [sql`${sql.literal(GIVEN_REVIEWS)} AS MATERIALIZED (SELECT * FROM ${unnestRows(reviewRows(ops), "g")})`]

/**
 * The reviewers that may still decide, locked, so that one which is stopped decides nothing after the stop. One that another transaction
 * has locked is skipped: its steps are decided again in a transaction.
 */
export const currentReviewers = (sql: SqlClient.SqlClient): Statement.Fragment =>
  sql.literal(`
    current_reviewers AS MATERIALIZED (
      SELECT v.org_id, v.task_id, v.generation
      FROM given_reviews g
        JOIN ops o ON o.op = g.op
        JOIN reviewers v ON v.org_id = o.org_id AND v.task_id = g.task_id
      WHERE v.state = 'watching'
      FOR SHARE OF v SKIP LOCKED
    )`)

/** The premise of a write about the decision of a reviewer model, over the table `o` of writes. */
export const REVIEWERS_PREMISE = `AND NOT EXISTS (
        SELECT FROM given_reviews g
        WHERE g.op = o.op
          AND NOT EXISTS (
            SELECT FROM current_reviewers v
            WHERE v.org_id = o.org_id AND v.task_id = g.task_id AND v.generation = g.generation
          )
      )`

/** Stores the answers with the steps that they decided. */
export const insertedReviews = (ops: ReadonlyArray<Op<ChangeOf<"Step">>>): RowInsert => ({
  name: "inserted_reviews",
  into: "reviewer_answers",
  columns: {
    org_id: "a.org_id",
    answer_id: "g.answer_id",
    task_id: "g.task_id",
    release_id: "n.reviewer_release_id",
    dataset_id: "g.dataset_id",
    session_id: "a.session_id",
    step_id: "n.step_id",
    tool: "n.tool",
    band: "g.band",
    mode: "'decided'",
    answer: "CASE WHEN n.decision = 'allow' THEN 'approve' ELSE 'reject' END",
    reason: "n.reviewer_reason",
    calls: "g.calls",
    tokens: "g.tokens",
    requested_at: "a.at",
    created_at: "a.at"
  },
  rows: { g: reviewRows(ops), n: givenSteps(ops) },
  tables: { g: GIVEN_REVIEWS, n: NEW_STEPS }
})
