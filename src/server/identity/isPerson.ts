import type { SqlClient } from "effect/sql"

/** An SQL condition on `api_keys`: the row stands for a person who signs in with an identity provider, not for a key. */
export const isPerson = (sql: SqlClient.SqlClient) => sql.literal(PERSON)

const PERSON = `EXISTS (
  SELECT 1
  FROM people
  WHERE people.org_id = api_keys.org_id
    AND people.key_id = api_keys.key_id
)`
