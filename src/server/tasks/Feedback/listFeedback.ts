import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { FeedbackFilter } from "../../../api/Feedback.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { FeedbackStatus, Score } from "../../../domain/tasks/Feedback.ts"
import { FeedbackId, type OrgId } from "../../../domain/Ids.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"
import { cutBySize } from "./cutBySize.ts"
import { readFeedback } from "./rows.ts"

/**
 * Lists a page of the organization's feedback, newest first: at least one, at most `limit`, and about 256 KiB.
 *
 * A list of everything, of one run or of one end user scans one index. Any other filter is a union over the pairs of status and score.
 * Each pair scans its own range of an index, so that rare combinations do not scan past all other feedback.
 */
export const listFeedback = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<FeedbackId> & FeedbackFilter
) {
  const sized = yield* sizedRows.all(listStatement(sql, org_id, request))
  const { ids, next } = cutBySize(sized, rowLimit(request) - 1)
  return { rows: yield* readFeedback(sql, org_id, ids), next_cursor: next }
})

/** The statement that finds a page, and one record more if there is another page. */
export const listStatement = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<FeedbackId> & FeedbackFilter
) => {
  const limit = rowLimit(request)
  const where = sql.and([
    sql`org_id = ${org_id}`,
    ...(request.cursor === undefined ? [] : [sql`feedback_id < ${request.cursor}`]),
    ...(request.task_id === undefined ? [] : [sql`task_id = ${request.task_id}`]),
    ...(request.inference_log_id === undefined ? [] : [sql`trace_id = ${request.inference_log_id}`]),
    ...(request.end_user === undefined ? [] : [sql`end_user = ${request.end_user}`]),
    ...(request.score_label === undefined ? [] : [sql`score_label = ${request.score_label}`]),
    ...(request.has_comment === undefined ? [] : [sql`comment IS NOT NULL`]),
    ...(request.created_after === undefined
      ? []
      : [sql`feedback_id >= ${FeedbackId.lowerBound(request.created_after)}`]),
    ...(request.created_before === undefined
      ? []
      : [sql`feedback_id < ${FeedbackId.lowerBound(request.created_before)}`])
  ])
  const statuses = textArray(statusesOf(request))
  const scores = int4Array(request.score === undefined ? Score.literals : [request.score])
  return isIndexScan(request)
    ? sql`
          SELECT feedback_id, bytes
          FROM feedback
          WHERE ${where}
            ${isOfOneIndex(request) ? sql`AND status = ANY(${statuses}) AND score = ANY(${scores})` : sql.literal("")}
          ORDER BY feedback_id DESC
          LIMIT ${limit}
        `
    : sql`
          WITH listed AS MATERIALIZED (
            SELECT found.feedback_id
            FROM unnest(${statuses}) AS statuses (status)
              CROSS JOIN unnest(${scores}) AS scores (score)
              CROSS JOIN LATERAL (
                SELECT feedback_id
                FROM feedback
                WHERE ${where}
                  AND status = statuses.status
                  AND score = scores.score
                ORDER BY feedback_id DESC
                LIMIT ${limit}
              ) AS found
            ORDER BY found.feedback_id DESC
            LIMIT ${limit}
          )
          SELECT feedback_id, bytes
          FROM feedback
          WHERE org_id = ${org_id}
            AND feedback_id = ANY(ARRAY(SELECT feedback_id FROM listed))
          ORDER BY feedback_id DESC
        `
}

/** The statuses that match the filter. */
const statusesOf = ({ has_correction, status }: FeedbackFilter): ReadonlyArray<FeedbackStatus> =>
  FeedbackStatus.literals.filter(
    (other) =>
      (status === undefined || other === status) &&
      (has_correction === undefined || has_correction === (other !== "recorded"))
  )

/** Whether the list is of one run or one end user, which an index finds. */
const isOfOneIndex = ({ end_user, inference_log_id }: FeedbackFilter): boolean =>
  inference_log_id !== undefined || end_user !== undefined

/** Whether one index yields the list and few other rows. */
const isIndexScan = (filter: FeedbackFilter): boolean => {
  const { has_comment, has_correction, score, score_label, status, task_id } = filter
  return (
    isOfOneIndex(filter) ||
    [has_comment, has_correction, score, score_label, status, task_id].every((one) => one === undefined)
  )
}

const sizedRows = rowsOf(Schema.Struct({ feedback_id: FeedbackId, bytes: Schema.Int }))
