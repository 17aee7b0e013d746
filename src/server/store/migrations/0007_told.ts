import { statements } from "./statements.ts"

/**
 * The last decision that an agent was given for a step: a resume with another decision is an event of its own. The warning before the end
 * of a window, by default a quarter of the window. And an index for the list of a task's approvals.
 */
export default statements(
  `ALTER TABLE governed_steps ADD COLUMN told text CHECK (told IN ('allow', 'reject', 'pending'))`,
  `CREATE INDEX approvals_task ON approvals (org_id, task_id, approval_id DESC) WHERE task_id IS NOT NULL`,
  `ALTER TABLE approvals ALTER COLUMN expiring_seconds DROP NOT NULL`
)
