import { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { SecretBox, type SecretUnreadable } from "../secrets/SecretBox.ts"
import { placeOf } from "../secrets/SecretBox/sealedColumns.ts"
import { nextTurn } from "../concurrency/LoopTurns.ts"
import { type MovedTable, quoted } from "./movedTables.ts"
import { digestOf, lineOf } from "./rowExpressions.ts"
import { makeRowsDigest, readRowsDigest } from "./rowsDigest.ts"

/** Rows of one read: as many as fill about this many characters, so that memory does not depend on the size of rows. */
const READ_CHARACTERS = 2 ** 20
const FIRST_ROWS = 16
const MAX_ROWS = 5_000

/** A row: the values of the table's columns as PostgreSQL writes them, sealed ones in base64 without their seal. */
export type MovedRow = ReadonlyArray<string | null>

const decodeLine = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(Schema.NullOr(Schema.String))))
/** Decodes the line of a row. Throws if it is none. */
export const decodeRow = (line: string): MovedRow => decodeLine(line)

/** `bytea` as text, `\x…`, to bytes. */
const fromHex = (text: string): Buffer => Buffer.from(text.slice(2), "hex")

/** Unseals the secrets of a row. */
const unsealRow = Effect.fnUntraced(function* (
  table: MovedTable,
  org_id: OrgId,
  row: MovedRow
): Effect.fn.Return<MovedRow, SecretUnreadable, SecretBox> {
  const box = yield* SecretBox
  const valueOf = (name: string) => row[table.columns.findIndex((column) => column.name === name)] ?? ""
  return yield* Effect.forEach(table.columns, ({ sealed }, index) => {
    const value = row[index] ?? null
    if (sealed === undefined || value === null) return Effect.succeed(value)
    const place = placeOf(sealed, org_id, sealed.key.map(valueOf))
    return Effect.map(box.unsealBytes(place, fromHex(value)), (bytes) =>
      Buffer.from(bytes).toString("base64")
    )
  })
})

/** Seals the secrets of a row of a file with this installation's newest master key. */
export const sealRow = Effect.fnUntraced(function* (table: MovedTable, org_id: OrgId, row: MovedRow) {
  const box = yield* SecretBox
  const valueOf = (name: string) => row[table.columns.findIndex((column) => column.name === name)] ?? ""
  return yield* Effect.forEach(table.columns, ({ sealed }, index) => {
    const value = row[index] ?? null
    if (sealed === undefined || value === null) return Effect.succeed(value)
    const place = placeOf(sealed, org_id, sealed.key.map(valueOf))
    return Effect.map(
      box.sealBytes(place, Buffer.from(value, "base64")),
      (bytes) => `\\x${Buffer.from(bytes).toString("hex")}`
    )
  })
})

/**
 * Plans statements of the caller's transaction without index scans, which would read a large table in the order of its key: page by page at
 * random. Sequential and bitmap scans read it in the order of its pages.
 */
export const inPageOrder = <A, E, R>(
  sql: SqlClient.SqlClient,
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R> =>
  Effect.gen(function* () {
    yield* sql`SET LOCAL enable_indexscan = off`
    const result = yield* self
    yield* sql`SET LOCAL enable_indexscan TO DEFAULT`
    return result
  })

/**
 * Reads the column `line` of a query through a cursor, in batches of bounded size. Runs in a transaction of the caller. A cursor takes no
 * parameters.
 */
export const readLines = Effect.fnUntraced(function* <E, R>(
  sql: SqlClient.SqlClient,
  query: string,
  use: (lines: ReadonlyArray<string>) => Effect.Effect<void, E, R>
): Effect.fn.Return<void, E | SqlError.SqlError, R> {
  yield* sql.unsafe(`DECLARE moved_lines NO SCROLL CURSOR FOR ${query}`)
  let rows = FIRST_ROWS
  for (;;) {
    const found = yield* sql.unsafe<{ readonly line: string }>(`FETCH FORWARD ${rows} FROM moved_lines`)
    if (found.length === 0) break
    const lines = found.map(({ line }) => line)
    yield* use(lines)
    yield* nextTurn
    const characters = lines.reduce((sum, line) => sum + line.length, 0)
    rows = Math.max(1, Math.min(MAX_ROWS, rows * 4, Math.floor((READ_CHARACTERS * rows) / (characters + 1))))
  }
  yield* sql.unsafe("CLOSE moved_lines")
})

/** Reads the rows of an organization as lines of JSON with unsealed secrets. Runs in a transaction of the caller. */
export const readTable = <E, R>(
  sql: SqlClient.SqlClient,
  table: MovedTable,
  org_id: OrgId,
  use: (lines: ReadonlyArray<string>) => Effect.Effect<void, E, R>
): Effect.Effect<void, E | SqlError.SqlError | SecretUnreadable, R | SecretBox> => {
  const order = table.orderBy === undefined ? "" : ` ORDER BY ${quoted(table.orderBy)}`
  const query = `SELECT ${lineOf(table)} AS line FROM ${quoted(table.name)} AS moved WHERE org_id = '${org_id}'${order}`
  if (table.columns.every(({ sealed }) => sealed === undefined)) {
    return inPageOrder(sql, readLines(sql, query, use))
  }
  return inPageOrder(
    sql,
    readLines(sql, query, (lines) =>
      Effect.flatMap(
        Effect.forEach(lines, (line) =>
          Effect.map(unsealRow(table, org_id, decodeRow(line)), (row) => JSON.stringify(row))
        ),
        use
      )
    )
  )
}

/** Counts the rows of an organization in a table, and adds up their digests. Runs in a transaction of the caller. */
export const digestTable = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  table: MovedTable,
  org_id: OrgId
) {
  if (table.columns.every(({ sealed }) => sealed === undefined)) {
    return yield* inPageOrder(
      sql,
      readRowsDigest(
        sql,
        `SELECT ${digestOf(table)} AS digest FROM ${quoted(table.name)} AS moved WHERE org_id = $1`,
        [org_id]
      )
    )
  }
  const digest = makeRowsDigest()
  yield* readTable(sql, table, org_id, (lines) => Effect.sync(() => lines.forEach(digest.add)))
  return digest.result()
})
