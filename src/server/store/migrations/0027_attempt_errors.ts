import { statements } from "./statements.ts"

/** Finds the last error of a destination, however many attempts have succeeded since. */
export default statements(
  `CREATE INDEX delivery_attempts_errors ON delivery_attempts (org_id, destination_id, started_at) WHERE error IS NOT NULL`
)
