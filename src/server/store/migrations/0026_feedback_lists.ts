import { statements } from "./statements.ts"

/**
 * Indexes for filtered lists of feedback, newest first within each status and score. A filter by task, status, score or
 * correction merges the ranges of the matching statuses and scores. With the score only as a filter condition, a list
 * by a rare score scanned all feedback of the organization.
 */
export default statements(
  `CREATE INDEX feedback_task_lists ON feedback (org_id, task_id, status, score, feedback_id DESC)`,
  `CREATE INDEX feedback_lists ON feedback (org_id, status, score, feedback_id DESC)`,
  `DROP INDEX feedback_task`,
  `DROP INDEX feedback_status`
)
