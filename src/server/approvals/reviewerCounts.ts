import type { SqlClient, Statement } from "effect/sql"
import { columnsOf } from "../store/dailyCounts.ts"

/** The columns that `reviewerCounts` reads, of a table with this name in the statement. */
export const countedAnswerColumns = (table?: string): string =>
  columnsOf(
    [
      "org_id",
      "task_id",
      "release_id",
      "dataset_id",
      "tool",
      "band",
      "answer",
      "verdict",
      "decided_at",
      "counted"
    ],
    table
  )

/**
 * A CTE that counts the compared answers in `rows`, a CTE with `countedAnswerColumns`, by the week of the decision. An answer is compared
 * once and then never changes.
 */
export const reviewerCounts = (sql: SqlClient.SqlClient, rows: string): Statement.Fragment =>
  sql.literal(`
  counted_answers AS (
    INSERT INTO reviewer_counts AS c (org_id, task_id, release_id, dataset_id, tool, band, week, answer, verdict, answers)
    SELECT
      org_id, task_id, release_id, coalesce(dataset_id, ''), tool, band, date_trunc('week', decided_at AT TIME ZONE 'UTC')::date, answer,
      verdict, count(*)
    FROM ${rows}
    WHERE counted
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9
    ON CONFLICT (org_id, task_id, release_id, dataset_id, tool, band, week, answer, verdict) DO UPDATE
    SET answers = c.answers + excluded.answers
  )`)
