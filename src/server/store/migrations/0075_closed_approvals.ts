import { statements } from "./statements.ts"

/** The console lists approvals by the time of their close. An entry is written when an approval closes, not with a step. */
export default statements(
  `CREATE INDEX approvals_closed ON approvals (org_id, decided_at, approval_id) WHERE decided_at IS NOT NULL`
)
