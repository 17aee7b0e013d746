import type { SqlClient, Statement } from "effect/sql"

/**
 * SQL of a text in lower case, for comparisons and indexes without regard to letter case. The database's own locale has no part in it: in
 * Turkish the lower case of `I` is not `i`. The result is compared and sorted by code point. `text` is SQL.
 */
export const foldCase = (text: string): string => `lower(${text} COLLATE "und-x-icu") COLLATE "C"`

/** Whether a text contains another one, in any case. Without patterns: a percent sign or an underscore stands for itself. `text` is SQL. */
export const containsText = (sql: SqlClient.SqlClient, text: string, part: string): Statement.Fragment =>
  sql`strpos(${sql.literal(foldCase(text))}, ${foldedValue(sql, part)}) > 0`

/** Whether a text is equal to another one, in any case. `text` is SQL. */
export const equalsText = (sql: SqlClient.SqlClient, text: string, other: string): Statement.Fragment =>
  sql`${sql.literal(foldCase(text))} = ${foldedValue(sql, other)}`

const foldedValue = (sql: SqlClient.SqlClient, value: string) =>
  sql`lower(${value}::text COLLATE "und-x-icu") COLLATE "C"`
