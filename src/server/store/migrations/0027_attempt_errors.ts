import { statements } from "./statements.ts"

/** What went wrong last on the way to a destination is found however much has arrived since. */
export default statements(
  `CREATE INDEX delivery_attempts_errors ON delivery_attempts (org_id, destination_id, started_at) WHERE error IS NOT NULL`
)
