import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/**
 * A migration of plain SQL, one statement per string, because the wire protocol accepts one at a time. Statements are
 * sent verbatim, without parameters.
 */
export const statements = (
  ...list: ReadonlyArray<string>
): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.forEach(list, (statement) => sql.unsafe(statement), { discard: true })
  )
