import { statements } from "./statements.ts"

/**
 * Makes deadlines cheap when thousands fall due in one second, and limits the size of approval lists.
 *
 * - Due approvals are claimed in the order of their due time and id, each claim continuing where the last one ended, past rows that
 *   were just moved and whose dead entries are still in the index.
 * - An event raises its session's `last_event`. Half of each page is kept free, so that the new row version stays on its page and no
 *   index changes (HOT), even if every session of a page has an event simultaneously.
 * - A session's approvals are listed newest first. The step's own row ensures that a step has one approval.
 * - `arguments_bytes`, the length of `arguments` as text, limits a page before any arguments are read.
 */
export default statements(
  `DROP INDEX approvals_due`,
  `CREATE INDEX approvals_due ON approvals (next_due_at, approval_id) WHERE next_due_at IS NOT NULL`,
  `DROP INDEX approvals_step`,
  `CREATE INDEX approvals_session ON approvals (org_id, session_id, approval_id DESC)`,
  `ALTER TABLE agent_sessions SET (fillfactor = 50)`,
  `ALTER TABLE approvals ADD COLUMN arguments_bytes int NOT NULL DEFAULT 0`,
  `UPDATE approvals SET arguments_bytes = octet_length(arguments::text) WHERE arguments IS NOT NULL`
)
