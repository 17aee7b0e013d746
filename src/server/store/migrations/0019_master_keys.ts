import { statements } from "./statements.ts"

/**
 * The master keys that have sealed something here, by their ids, which are digests of them: a start with another key is refused before
 * anything is sealed that only the wrong one opens.
 */
export default statements(
  `CREATE TABLE master_keys (
    key_id text COLLATE "C" PRIMARY KEY,
    first_used_at timestamptz NOT NULL
  )`
)
