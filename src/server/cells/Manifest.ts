import { Schema } from "effect"
import { OrgId } from "../../domain/Ids.ts"

/** The first line of the file. */
export const FileHeader = Schema.Struct({
  format: Schema.Literal("countersign-organization"),
  version: Schema.Literal(1),
  /** Number of the newest migration. */
  schema: Schema.Int,
  move_id: Schema.String.check(Schema.isPattern(/^[0-9a-f]{32}$/u)),
  org_id: OrgId,
  name: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1_000)),
  /** SHA-256 of the code that activates the imported copy. */
  release: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u)),
  tables: Schema.Array(Schema.Struct({ name: Schema.String, columns: Schema.Array(Schema.String) }))
})
export type FileHeader = typeof FileHeader.Type

/** The last line of the file. */
export const FileEnd = Schema.Struct({
  end: Schema.Literal(true),
  tables: Schema.Record(Schema.String, Schema.Struct({ rows: Schema.Int, digest: Schema.String })),
  /** Proves that the whole file was imported. */
  receipt: Schema.String,
  /** Proves that the imported copy is active. */
  activation: Schema.String
})
export type FileEnd = typeof FileEnd.Type

/** Begins the rows of a table. */
export const TableStart = Schema.Struct({ table: Schema.String })
