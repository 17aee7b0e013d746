import { statements } from "./statements.ts"

/** Open sessions are counted per organization, for its limit. Closed ones stay and must not be read for it. */
export default statements(
  `CREATE INDEX agent_sessions_open ON agent_sessions (org_id) WHERE closed_at IS NULL`
)
