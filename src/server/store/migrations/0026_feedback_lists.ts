import { statements } from "./statements.ts"

/**
 * A list by any of task, status, score and whether there is a correction is put together of the lists of each status and score, which
 * these hold newest first: with the score only looked at, a list by one that few have read all of an organization's feedback.
 */
export default statements(
  `CREATE INDEX feedback_task_lists ON feedback (org_id, task_id, status, score, feedback_id DESC)`,
  `CREATE INDEX feedback_lists ON feedback (org_id, status, score, feedback_id DESC)`,
  `DROP INDEX feedback_task`,
  `DROP INDEX feedback_status`
)
