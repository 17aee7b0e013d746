import { statements } from "./statements.ts"

/** The console shows how people decided about a tool before. An entry is written with a person's decision, not with a step. */
export default statements(
  `CREATE INDEX approvals_tool_decided ON approvals (org_id, tool, decided_at) WHERE decision_source = 'human'`
)
