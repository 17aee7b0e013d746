import { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { SecretBox, type SecretUnreadable } from "../secrets/SecretBox.ts"
import { placeOf } from "../secrets/SecretBox/sealedColumns.ts"
import { nextTurn } from "../concurrency/LoopTurns.ts"
import { type MovedTable, quoted } from "./movedTables.ts"

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
 * Reads the rows of an organization through a cursor, as lines of JSON with unsealed secrets. Runs in a transaction of the caller. The text
 * form of every type is read back to the same value.
 */
export const readTable = Effect.fnUntraced(function* <E, R>(
  sql: SqlClient.SqlClient,
  table: MovedTable,
  org_id: OrgId,
  use: (lines: ReadonlyArray<string>) => Effect.Effect<void, E, R>
): Effect.fn.Return<void, E | SqlError.SqlError | SecretUnreadable, R | SecretBox> {
  const columns = table.columns.map(({ name }) => `${quoted(name)}::text`).join(", ")
  const order = table.orderBy === undefined ? "" : ` ORDER BY ${quoted(table.orderBy)}`
  yield* sql.unsafe(
    `DECLARE moved_rows NO SCROLL CURSOR FOR SELECT to_json(ARRAY[${columns}])::text AS line ` +
      `FROM ${quoted(table.name)} WHERE org_id = '${org_id}'${order}`
  )
  const hasSecrets = table.columns.some(({ sealed }) => sealed !== undefined)
  let rows = FIRST_ROWS
  for (;;) {
    const found = yield* sql.unsafe<{ readonly line: string }>(`FETCH FORWARD ${rows} FROM moved_rows`)
    if (found.length === 0) break
    let characters = 0
    const lines: Array<string> = []
    for (const { line } of found) {
      characters += line.length
      lines.push(hasSecrets ? JSON.stringify(yield* unsealRow(table, org_id, decodeRow(line))) : line)
    }
    yield* use(lines)
    yield* nextTurn
    rows = Math.max(1, Math.min(MAX_ROWS, rows * 4, Math.floor((READ_CHARACTERS * rows) / (characters + 1))))
  }
  yield* sql.unsafe("CLOSE moved_rows")
})
