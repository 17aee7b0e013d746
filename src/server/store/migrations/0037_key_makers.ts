import { statements } from "./statements.ts"

/** Finds the keys that a key created, which are revoked with it. */
export default statements(
  `CREATE INDEX api_keys_created_by ON api_keys (org_id, created_by_id) WHERE created_by_id IS NOT NULL`
)
