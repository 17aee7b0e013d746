import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { rowsOf } from "./rows.ts"
import { containsText } from "./foldCase.ts"
import { afterCursor, type ListOrder, sqlDirection } from "./Pagination.ts"

/** The most rows that are examined for one page of a list that is searched. */
export const MAX_EXAMINED_ROWS = 5_000

/** The most words of a search; more are ignored. */
const MAX_WORDS = 10

/** The rows of a page that match. */
export interface FoundMatches {
  readonly ids: ReadonlyArray<string>
  /** The last row that was examined, if the search ended before the list did: the cursor of the next page. */
  readonly horizon: string | null
}

const foundRows = rowsOf(Schema.Struct({ id: Schema.String, is_horizon: Schema.Boolean }))

/**
 * Finds the ids of rows that meet all conditions and whose text contains every word, without regard to letter case, in the order of their
 * ids. At most `maxExamined` rows are examined for a page: a word that hardly any row has costs no more than one that all have.
 */
export const findMatches = (
  sql: SqlClient.SqlClient,
  list: {
    readonly table: string
    readonly id: string
    /** The SQL of a row's text. */
    readonly text: string
    /** The condition of the rows that are examined. An index has them in the order of their ids. */
    readonly where: Statement.Fragment
    /** Conditions that no index has together with `where`. */
    readonly conditions?: ReadonlyArray<Statement.Fragment>
    readonly words: string
    readonly order: ListOrder | undefined
    readonly cursor: string | undefined
    readonly limit: number
    readonly maxExamined?: number
  }
): Effect.Effect<FoundMatches, Effect.Error<ReturnType<typeof foundRows.all>>> => {
  const { conditions = [], maxExamined = MAX_EXAMINED_ROWS } = list
  const direction = sql.literal(sqlDirection(list.order))
  const words = list.words
    .split(/\s+/u)
    .filter((word) => word !== "")
    .slice(0, MAX_WORDS)
  const matches = [
    sql.literal("meets_conditions"),
    ...words.map((word) => containsText(sql, "row_text", word))
  ]
  return Effect.map(
    foundRows.all(sql`
      WITH examined AS MATERIALIZED (
        SELECT
          ${sql(list.id)} AS id,
          ${sql.literal(words.length === 0 ? "''" : list.text)} AS row_text,
          ${sql.and([sql.literal("true"), ...conditions])} AS meets_conditions
        FROM ${sql(list.table)}
        WHERE ${list.where}
          ${afterCursor(sql, list.id, list.cursor, list.order)}
        ORDER BY ${sql(list.id)} ${direction}
        LIMIT ${maxExamined}::int
      ), found AS MATERIALIZED (
        SELECT id
        FROM examined
        WHERE ${sql.and(matches)}
        ORDER BY id ${direction}
        LIMIT ${list.limit}::int
      )
      SELECT id, false AS is_horizon
      FROM found
      UNION ALL
      SELECT ${sql.literal(sqlDirection(list.order) === "DESC" ? "min(id)" : "max(id)")}, true
      FROM examined
      HAVING count(*) = ${maxExamined}::int
        AND (SELECT count(*) FROM found) < ${list.limit}::int
    `),
    (rows) => ({
      ids: rows.flatMap(({ id, is_horizon }) => (is_horizon ? [] : [id])),
      horizon: rows.find(({ is_horizon }) => is_horizon)?.id ?? null
    })
  )
}
