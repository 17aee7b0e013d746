import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** All rows of all tables as text; bytes as hexadecimal digits. */
export const databaseAsText = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`
    SELECT quote_ident(table_name) AS name
    FROM information_schema.tables
    WHERE table_schema = 'public'
      AND table_type = 'BASE TABLE'
  `
  const rows = yield* Effect.forEach(tables, ({ name }) =>
    sql.unsafe(`SELECT to_json(t)::text AS row FROM ${name} t`)
  )
  return JSON.stringify(rows)
})
