import type { SqlClient, Statement } from "effect/sql"

/**
 * SQL of a text in lower case, for comparisons and indexes without regard to letter case. The database's own locale has no part in it: in
 * Turkish the lower case of `I` is not `i`. The result is compared and sorted by code point. `text` is SQL.
 */
export const foldCase = (text: string): string => `lower(${text} COLLATE "und-x-icu") COLLATE "C"`

/** Whether a text contains another one, in any case. Without patterns: a percent sign or an underscore stands for itself. `text` is SQL. */
export const containsText = (sql: SqlClient.SqlClient, text: string, part: string): Statement.Fragment =>
  sql`strpos(${sql.literal(foldCase(text))}, ${foldedValue(sql, part)}) > 0`

/**
 * Whether two names look alike: apart from letter case, spaces, joiners and variation selectors, and forms of a character that Unicode calls
 * compatible (NFKC), such as `é` with a combining accent, full-width letters and no-break spaces. `name` is SQL.
 */
export const equalsName = (sql: SqlClient.SqlClient, name: string, other: string): Statement.Fragment => {
  const spelling = (text: Statement.Fragment) =>
    folded(
      sql,
      sql`btrim(regexp_replace(translate(normalize(${text}, NFKC), U&'\\200C\\200D\\FE0E\\FE0F', ''), ' +', ' ', 'g'))`
    )
  return sql`${spelling(sql.literal(name))} = ${spelling(sql`${other}::text`)}`
}

const foldedValue = (sql: SqlClient.SqlClient, value: string) => folded(sql, sql`${value}::text`)

/** `foldCase` of SQL with parameters. */
const folded = (sql: SqlClient.SqlClient, text: Statement.Fragment) =>
  sql`lower(${text} COLLATE "und-x-icu") COLLATE "C"`
