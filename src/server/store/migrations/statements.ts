import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

type Migration = Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>

/**
 * A migration of plain SQL, one statement per string, because the wire protocol accepts one at a time. Statements are
 * sent verbatim, without parameters.
 */
export const statements = (...list: ReadonlyArray<string>): Migration =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.forEach(list, (statement) => sql.unsafe(statement), { discard: true })
  )

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** `COMMENT ON` for the comment before each table of a text, and behind each of its columns. */
const commentStatements = (text: string): ReadonlyArray<string> => {
  let table = ""
  let above = ""
  return text.split("\n").flatMap((line) => {
    const [, description] = /^-- (.*)$/.exec(line) ?? []
    const [, created] = /^CREATE TABLE (\w+)/.exec(line) ?? []
    const [, column, meaning] = /^ {2}(\S+) .* -- (.*)$/.exec(line) ?? []
    if (description !== undefined) above = description
    if (created !== undefined) table = created
    if (created !== undefined && above !== "") {
      const comment = `COMMENT ON TABLE ${table} IS ${literal(above)};`
      above = ""
      return [comment]
    }
    return column === undefined || meaning === undefined
      ? []
      : [`COMMENT ON COLUMN ${table}.${column} IS ${literal(meaning)};`]
  })
}

/**
 * A migration of SQL as people read it: a text of statements, sent as one. The comment on the line before `CREATE TABLE` and those behind
 * its columns are also stored in the database.
 */
export const tables = (text: string): Migration =>
  statements(`DO $tables$ BEGIN\n${text}\n${commentStatements(text).join("\n")}\nEND $tables$`)
