import { Schema } from "effect"
import { OrgId } from "../../domain/Ids.ts"

const id = Schema.String.check(Schema.isPattern(/^[0-9a-f]{32}$/u))

const header = {
  version: Schema.Literal(1),
  /** Number of the newest migration. */
  schema: Schema.Int,
  move_id: id,
  org_id: OrgId,
  name: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1_000)),
  tables: Schema.Array(Schema.Struct({ name: Schema.String, columns: Schema.Array(Schema.String) }))
}

/** The first line of an export. */
export const FileHeader = Schema.Struct({
  ...header,
  format: Schema.Literal("countersign-organization"),
  /** SHA-256 of the code that activates the imported copy. */
  release: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u)),
  /** The copy that the file completes: of the copied tables it has only the rows that differ. Left out: the file has every row. */
  since: Schema.optionalKey(id)
})
export type FileHeader = typeof FileHeader.Type

/** The first line of a copy, whose id is `move_id`. Its tables are those that a copy contains. */
export const CopyHeader = Schema.Struct({
  ...header,
  format: Schema.Literal("countersign-organization-copy")
})
export type CopyHeader = typeof CopyHeader.Type

const tables = Schema.Record(Schema.String, Schema.Struct({ rows: Schema.Int, digest: Schema.String }))

/** The last line of an export. */
export const FileEnd = Schema.Struct({
  end: Schema.Literal(true),
  /** Of all rows of each table, also those that only the copy has. */
  tables,
  /** Proves that the whole file was imported. */
  receipt: Schema.String,
  /** Proves that the imported copy is active. */
  activation: Schema.String
})
export type FileEnd = typeof FileEnd.Type

/** The last line of a copy. */
export const CopyEnd = Schema.Struct({
  end: Schema.Literal(true),
  tables,
  /** Proves that the whole copy was loaded. */
  receipt: Schema.String
})
export type CopyEnd = typeof CopyEnd.Type

/** Begins the rows of a table. */
export const TableStart = Schema.Struct({ table: Schema.String })

/** The key of a row that the copy has, and that was deleted or is different now. These lines precede the rows of a table. */
export const RemovedRow = Schema.Struct({ removed: Schema.Array(Schema.String) })
