/** SQL expressions over the rows of a table that moves. The text form of every type is read back to the same value. */
import { type MovedTable, quoted } from "./movedTables.ts"

const jsonOf = (columns: MovedTable["columns"]): string =>
  `to_json(ARRAY[${columns.map(({ name }) => `moved.${quoted(name)}::text`).join(", ")}])::text`

/** A row as a line of the file. */
export const lineOf = (table: MovedTable): string => jsonOf(table.columns)

/** The key of a row: a JSON array of texts. */
export const keyOf = (table: MovedTable): string => `(${jsonOf(table.key)}) COLLATE "C"`

/** The first 16 bytes of the SHA-256 of a row's line. */
export const digestOf = (table: MovedTable): string =>
  `encode(substring(sha256(convert_to(${lineOf(table)}, 'UTF8')) FOR 16), 'hex')::uuid`
