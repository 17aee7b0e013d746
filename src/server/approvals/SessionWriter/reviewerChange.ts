import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { int4Array, int8Array, textArray } from "../../store/pgArrays.ts"
import type { ChangeOf, Op } from "./Op.ts"
import type { StepReview } from "./SessionWrite.ts"

/** The decisions of reviewer models among new steps. */
const reviewsOf = (
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>
): ReadonlyArray<{ readonly op: number; readonly review: StepReview }> =>
  ops.flatMap(({ change: { review }, op }) => (review === null ? [] : [{ op, review }]))

/** The answers of reviewer models that decide steps. Statements without one do not have this part. */
export const givenReviews = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>
): ReadonlyArray<Statement.Fragment> => {
  const given = reviewsOf(ops)
  if (given.length === 0) return []
  const reviews = given.map(({ review }) => review)
  return [
    sql`
    given_reviews AS MATERIALIZED (
      SELECT *
      FROM unnest(
        ${int4Array(given.map(({ op }) => op))}::int[],
        ${textArray(reviews.map(({ answer_id }) => answer_id))}::text[],
        ${textArray(reviews.map(({ task_id }) => task_id))}::text[],
        ${textArray(reviews.map(({ dataset_id }) => dataset_id))}::text[],
        ${int8Array(reviews.map(({ generation }) => generation))}::bigint[],
        ${int4Array(reviews.map(({ band }) => band))}::int[],
        ${int4Array(reviews.map(({ calls }) => calls))}::int[],
        ${int8Array(reviews.map(({ tokens }) => tokens))}::bigint[]
      ) AS g (op, answer_id, task_id, dataset_id, generation, band, calls, tokens)
    )`
  ]
}

/**
 * The reviewers that may still decide, locked, so that one which is stopped decides nothing after the stop. One that another transaction
 * has locked is skipped: its steps are decided again in a transaction.
 */
export const currentReviewers = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>,
  org_id: OrgId | undefined
): ReadonlyArray<Statement.Fragment> => {
  const given = reviewsOf(ops)
  if (given.length === 0) return []
  return [
    // On a cluster, rows of a join with other rows cannot be locked.
    org_id === undefined
      ? sql`
    current_reviewers AS MATERIALIZED (
      SELECT v.org_id, v.task_id, v.generation
      FROM given_reviews g
        JOIN ops o ON o.op = g.op
        JOIN reviewers v ON v.org_id = o.org_id AND v.task_id = g.task_id
      WHERE v.state = 'watching'
      FOR SHARE OF v SKIP LOCKED
    )`
      : sql`
    current_reviewers AS MATERIALIZED (
      SELECT v.org_id, v.task_id, v.generation
      FROM reviewers v
      WHERE v.org_id = ${org_id}
        AND v.task_id = ANY (${textArray(given.map(({ review }) => review.task_id))}::text[])
        AND v.state = 'watching'
      FOR SHARE SKIP LOCKED
    )`
  ]
}

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
export const insertedReviews = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    inserted_reviews AS (
      INSERT INTO reviewer_answers (
        org_id, answer_id, task_id, release_id, dataset_id, session_id, step_id, tool, band, mode, answer, reason, calls, tokens,
        requested_at, created_at
      )
      SELECT
        a.org_id, g.answer_id, g.task_id, n.reviewer_release_id, g.dataset_id, a.session_id, n.step_id, n.tool, g.band, 'decided',
        CASE n.decision WHEN 'allow' THEN 'approve' ELSE 'reject' END, n.reviewer_reason, g.calls, g.tokens, a.at, a.at
      FROM given_reviews g
        JOIN new_steps n ON n.op = g.op
        JOIN numbered a ON a.op = g.op
    )`)
