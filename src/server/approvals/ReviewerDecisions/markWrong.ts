import type { SqlClient } from "effect/sql"
import type { OrgId, ReviewerAnswerId, TaskId } from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import { currentTime } from "../../store/currentTime.ts"
import { hasRow } from "../../store/rows.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { countedAnswerColumns, reviewerCounts } from "../reviewerCounts.ts"

/**
 * Marks a decision of a reviewer as wrong, once, and counts it as a disagreement. Returns whether it was changed: not if it was marked before,
 * or the reviewer has made no such decision.
 */
export const markWrong = (
  { clock, sql }: { readonly sql: SqlClient.SqlClient; readonly clock: StoreClock["Service"] },
  org_id: OrgId,
  task_id: TaskId,
  answer_id: ReviewerAnswerId,
  by: Actor
) =>
  hasRow(sql`
    WITH marked AS (
      UPDATE reviewer_answers AS answer
      SET
        wrong_at = ${currentTime(sql, clock)}, wrong_by_id = ${by.id}, wrong_by_name = ${by.name},
        verdict = CASE WHEN answer.answer = 'approve' THEN 'reject' ELSE 'approve' END, decided_at = ${currentTime(sql, clock)}, counted = true
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND answer_id = ${answer_id}
        AND mode = 'decided'
        AND wrong_at IS NULL
      RETURNING ${sql.literal(countedAnswerColumns("answer"))}
    ),
    ${reviewerCounts(sql, "marked")}
    SELECT 1 AS marked
    FROM marked
  `)
