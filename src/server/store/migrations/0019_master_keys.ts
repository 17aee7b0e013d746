import { statements } from "./statements.ts"

/**
 * The ids (digests) of the master keys that have sealed secrets in this database. A start with another key is refused
 * before it seals a secret that only the wrong key could unseal.
 */
export default statements(
  `CREATE TABLE master_keys (
    key_id text COLLATE "C" PRIMARY KEY,
    first_used_at timestamptz NOT NULL
  )`
)
