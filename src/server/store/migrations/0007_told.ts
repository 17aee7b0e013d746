import { statements } from "./statements.ts"

/**
 * What the agent was last told of a step: a resume that is answered otherwise is an event of its own. And the warning before a window's
 * end, which where nothing is said is a quarter of that very window. And the list of a task's approvals.
 */
export default statements(
  `ALTER TABLE governed_steps ADD COLUMN told text CHECK (told IN ('allow', 'reject', 'pending'))`,
  `CREATE INDEX approvals_task ON approvals (org_id, task_id, approval_id DESC) WHERE task_id IS NOT NULL`,
  `ALTER TABLE approvals ALTER COLUMN expiring_seconds DROP NOT NULL`
)
