import { statements } from "./statements.ts"

/**
 * What keeps deadlines cheap where thousands fall in one second, and lists of approvals bounded.
 *
 * - Due approvals are claimed in the order of their due time and id, each claim going on where the last one ended: past rows that
 *   were just moved and are still in the index.
 * - An event raises its session's `last_event`. Half a page is kept free, so that the new row stays on its page and no index hears
 *   of it (HOT), also where every session of a page has an event at once.
 * - A session's approvals are listed newest first. That a step has one approval is held by the step's own row.
 * - `arguments_bytes`, the length of `arguments` as text, is what a page is bounded by before anything of it is read.
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
