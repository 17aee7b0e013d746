import type { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { statements } from "./statements.ts"

/** The comment of a table, first, and of its columns. */
export type TableComments = readonly [table: string, columns: Readonly<Record<string, string>>]

/** Columns that have one meaning in every table. */
export const orgId = { org_id: "Organization that owns the row." }

/** The API key that created a row. */
export const createdBy = {
  created_by_id: "API key that created the row.",
  created_by_name: "Name of that key at the time."
}

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`

/**
 * A migration that comments tables and columns, in a single statement: `COMMENT` changes the catalog only and blocks neither reads nor
 * writes.
 */
export const comments = (
  tables: Readonly<Record<string, TableComments>>
): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> => {
  const lines = Object.entries(tables).flatMap(([table, [about, columns]]) => [
    `COMMENT ON TABLE ${table} IS ${quote(about)};`,
    ...Object.entries(columns).map(
      ([column, text]) => `COMMENT ON COLUMN ${table}.${column} IS ${quote(text)};`
    )
  ])
  return statements(`DO $comments$ BEGIN\n${lines.join("\n")}\nEND $comments$`)
}
