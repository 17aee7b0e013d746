/**
 * Rows that a statement is given as parameters: as arrays that PostgreSQL makes a table of (`unnestRows`), or value by value in an INSERT of
 * its own (`insertGiven`).
 */
import { PgTypes } from "@effect/sql-pg"
import { Array as Arr, Effect } from "effect"
import { type SqlClient, type SqlError, Statement } from "effect/sql"
import type { Timestamp } from "../../domain/Time.ts"
import { boolArray, float8Array, int4Array, int8Array, textArray, timestamptzArray } from "./pgArrays.ts"

/** A column of given rows. */
export interface GivenColumn {
  /** Its type in SQL. */
  readonly type: string
  /** All its values as one parameter. */
  readonly array: () => PgTypes.Parameter
  /** The value of one row. */
  readonly at: (row: number) => PgTypes.Parameter
}

const columnOf =
  <A>(
    type: string,
    arrayOf: (values: ReadonlyArray<A | null>) => PgTypes.Parameter,
    one: (value: A | null) => PgTypes.Parameter
  ) =>
  (values: ReadonlyArray<A | null>): GivenColumn => ({
    type,
    array: () => arrayOf(values),
    at: (row) => one(values[row] ?? null)
  })

export const texts = columnOf<string>("text", textArray, PgTypes.text)
export const int4s = columnOf<number>("int", int4Array, PgTypes.int4)
export const float8s = columnOf<number>("float8", float8Array, PgTypes.float8)
export const bools = columnOf<boolean>("boolean", boolArray, PgTypes.bool)
export const timestamps = columnOf<Timestamp>("timestamptz", timestamptzArray, (at) =>
  PgTypes.timestamptz(at?.epochMilliseconds ?? null)
)
/** Numbers below 2^53, or bigints of 64 bits. */
export const int8s = (values: ReadonlyArray<number | bigint>): GivenColumn => ({
  type: "bigint",
  array: () => int8Array(values),
  at: (row) => PgTypes.int8(BigInt(values[row] ?? 0))
})

/** Rows with the writes that they belong to. */
export interface GivenRows {
  /** The `op` of each row. */
  readonly ops: ReadonlyArray<number>
  readonly columns: Readonly<Record<string, GivenColumn>>
}

/** `unnest(…) AS alias (op, …)` */
export const unnestRows = ({ columns, ops }: GivenRows, alias: string): Statement.Fragment => {
  const entries = Object.entries(columns)
  const segments: Array<Statement.Segment> = [
    Statement.literal("unnest("),
    Statement.parameter(int4Array(ops)),
    Statement.literal("::int[]")
  ]
  for (const [, { array, type }] of entries) {
    segments.push(Statement.literal(", "), Statement.parameter(array()), Statement.literal(`::${type}[]`))
  }
  segments.push(Statement.literal(`) AS ${alias} (op, ${entries.map(([name]) => name).join(", ")})`))
  return Statement.fragment(segments)
}

/** One INSERT, which is a CTE of the statement that commits writes, or follows it in a transaction. */
export interface RowInsert {
  /** The name of the CTE. */
  readonly name: string
  /** The table, with an alias if `ending` needs one. */
  readonly into: string
  /** The expression of each column, over the aliases of `rows`, and `a`, the writes that were applied. */
  readonly columns: Readonly<Record<string, string>>
  /** The given rows by alias. The first has a row for each inserted one, the others a row for each write. */
  readonly rows: Readonly<Record<string, GivenRows>>
  /** The tables by alias, where the statement has the rows already. */
  readonly tables?: Readonly<Record<string, string>>
  /** `ON CONFLICT …` and `RETURNING …`. */
  readonly ending?: string
}

/** The INSERT as a CTE. `writes` is the table of the writes that it is made for. */
export const insertCte = (
  sql: SqlClient.SqlClient,
  { columns, ending = "", into, name, rows, tables = {} }: RowInsert,
  writes: string
): Statement.Fragment => {
  const [first = "", ...others] = Object.keys(rows)
  const source = (alias: string) => {
    const existing = tables[alias]
    const given = rows[alias]
    return existing === undefined && given !== undefined
      ? unnestRows(given, alias)
      : sql.literal(`${existing} ${alias}`)
  }
  return sql`${sql.literal(`
    ${name} AS (
      INSERT INTO ${into} (${Object.keys(columns).join(", ")})
      SELECT ${Object.values(columns).join(", ")}
      FROM `)}${source(first)}${sql.literal(
    others.map((alias) => ` JOIN ${tables[alias]} ${alias} ON ${alias}.op = ${first}.op`).join("")
  )}${sql.literal(`
        JOIN ${writes} a ON a.op = ${first}.op
      ${ending}
    )`)}`
}

/** `alias.column` in an expression. An alias has one letter. */
const REFERENCE = /\b([a-z])\.([a-z_]+)\b/g

/**
 * Runs the same INSERT as a statement of its own, for the given rows whose writes are in `writes`, and returns its rows. Its values are
 * parameters: Citus sends it to the organization's node without planning.
 */
export const insertGiven = <Row extends object>(
  sql: SqlClient.SqlClient,
  { columns, ending = "", into, rows }: Omit<RowInsert, "name" | "tables">,
  writes: GivenRows
): Effect.Effect<ReadonlyArray<Row>, SqlError.SqlError> => {
  const [first] = Object.values(rows)
  const all: Readonly<Record<string, GivenRows>> = { ...rows, a: writes }
  const applied = new Set(writes.ops)
  const tuples = (first?.ops ?? []).flatMap((op, index) => {
    if (!applied.has(op)) return []
    const valueOf = (text: string, alias: string, name: string): ReadonlyArray<Statement.Segment> => {
      const given = all[alias]
      const column = given?.columns[name]
      if (given === undefined || column === undefined) throw new Error(`No ${text} among the given rows`)
      const parameter = column.at(given === first ? index : given.ops.indexOf(op))
      return [Statement.parameter(parameter), Statement.literal(`::${column.type}`)]
    }
    return [
      sql`(${sql.join(", ", false)(Object.values(columns).map((expression) => withValues(expression, valueOf)))})`
    ]
  })
  return Effect.map(
    Effect.forEach(Arr.chunksOf(tuples, MAX_TUPLES), (chunk) => {
      const statement = sql<Row>`
        INSERT INTO ${sql.literal(`${into} (${Object.keys(columns).join(", ")})`)}
        VALUES ${sql.join(", ", false)(chunk)}
        ${sql.literal(ending)}
      `
      // The text depends on the number of rows: only the most frequent one is worth a prepared statement.
      return chunk.length === 1 ? statement : statement.unprepared
    }),
    Arr.flatten
  )
}

/** Rows of one INSERT of values: each has up to 40 parameters, and a statement may have 65,535. */
const MAX_TUPLES = 1_000

/** An expression with values in place of its references. */
const withValues = (
  expression: string,
  valueOf: (text: string, alias: string, name: string) => ReadonlyArray<Statement.Segment>
): Statement.Fragment => {
  const segments: Array<Statement.Segment> = []
  let end = 0
  for (const { 0: text, 1: alias = "", 2: name = "", index } of expression.matchAll(REFERENCE)) {
    segments.push(Statement.literal(expression.slice(end, index)), ...valueOf(text, alias, name))
    end = index + text.length
  }
  segments.push(Statement.literal(expression.slice(end)))
  return Statement.fragment(segments)
}
