import type { SqlClient, Statement } from "effect/sql"
import { columnsOf, dayOf, type Sign, slotOf } from "../store/dailyCounts.ts"

const SLOTS = 16

/** The columns that `feedbackCounts` reads. */
export const countedFeedbackColumns = (): string =>
  columnsOf([
    "org_id",
    "task_id",
    "release_id",
    "created_at",
    "score",
    "score_value",
    "score_label",
    "is_current"
  ])

/**
 * CTEs that count the current feedback in CTEs with `countedFeedbackColumns`, by release: by score, and by label. Both may name one day
 * and release, so one statement writes them together. `value_excess` is the sum of the exact scores minus the rounded ones, in millionths.
 */
export const feedbackCounts = (
  sql: SqlClient.SqlClient,
  changes: Readonly<Record<string, Sign>>
): Statement.Fragment =>
  sql.literal(`
  changed_feedback AS (
    ${Object.entries(changes)
      .map(
        ([rows, sign]) => `SELECT ${countedFeedbackColumns()}, ${sign} AS sign FROM ${rows} WHERE is_current`
      )
      .join(" UNION ALL ")}
  ), counted_feedback AS (
    INSERT INTO feedback_counts AS c (org_id, task_id, day, release_id, slot, positive, neutral, negative, value_excess)
    SELECT
      org_id, task_id, ${dayOf("created_at")}, coalesce(release_id, ''), ${slotOf(SLOTS)},
      coalesce(sum(sign) FILTER (WHERE score = 1), 0), coalesce(sum(sign) FILTER (WHERE score = 0), 0),
      coalesce(sum(sign) FILTER (WHERE score = -1), 0),
      coalesce(sum(sign * round((score_value - score) * 1000000)), 0)::bigint
    FROM changed_feedback
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (org_id, task_id, day, release_id, slot) DO UPDATE
    SET
      positive = c.positive + excluded.positive,
      neutral = c.neutral + excluded.neutral,
      negative = c.negative + excluded.negative,
      value_excess = c.value_excess + excluded.value_excess
  ), counted_labels AS (
    INSERT INTO feedback_label_counts AS c (org_id, task_id, day, release_id, score_label, slot, count)
    SELECT
      org_id, task_id, ${dayOf("created_at")}, coalesce(release_id, ''), score_label, ${slotOf(SLOTS)},
      sum(sign)
    FROM changed_feedback
    WHERE score_label IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5
    ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (org_id, task_id, day, release_id, score_label, slot) DO UPDATE
    SET count = c.count + excluded.count
  )`)
