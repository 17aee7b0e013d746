import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/**
 * A migration from plain SQL, one statement per string: the wire protocol takes one at a time. Each is sent as it
 * stands, without parameters.
 */
export const statements = (
  ...list: ReadonlyArray<string>
): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.forEach(list, (statement) => sql.unsafe(statement), { discard: true })
  )
