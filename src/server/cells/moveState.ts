import { createHash, randomBytes } from "node:crypto"
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { OrgId } from "../../domain/Ids.ts"
import { rowsOf } from "../store/rows.ts"

/** The states of a move, see `OrganizationMoves`. */
export const MoveState = Schema.Literals([
  "frozen",
  "moved",
  "left",
  "copied",
  "importing",
  "staged",
  "arrived",
  "discarded"
])

/** The last move of an organization from or to this installation. */
export const MoveRow = Schema.Struct({
  org_id: OrgId,
  move_id: Schema.String,
  name: Schema.String,
  state: MoveState,
  is_fenced: Schema.Boolean,
  started_at: Schema.DateTimeUtcFromDate,
  moved_to: Schema.NullOr(Schema.String),
  /** Where it arrives: the copy whose rows are here. */
  copy_id: Schema.NullOr(Schema.String),
  row_count: Schema.NullOr(Schema.Number),
  receipt: Schema.NullOr(Schema.String),
  release_code: Schema.NullOr(Schema.String),
  activation_code: Schema.NullOr(Schema.String),
  /** Where it leaves: the key and codes of the export, with which its file can be written again. */
  transfer_key: Schema.NullOr(Schema.String),
  export_receipt: Schema.NullOr(Schema.String),
  export_activation: Schema.NullOr(Schema.String),
  /** Where it leaves: the codes of the move by which it had arrived. */
  arrival_release_code: Schema.NullOr(Schema.String),
  arrival_activation_code: Schema.NullOr(Schema.String)
})
export type MoveRow = typeof MoveRow.Type

const moveRows = rowsOf(MoveRow)

const columns =
  "org_id, move_id, name, state, is_fenced, started_at, moved_to, copy_id, row_count::float8 AS row_count, receipt, release_code, activation_code, " +
  "transfer_key, export_receipt, export_activation, arrival_release_code, arrival_activation_code"

/** The last move of the organization with this name, with its row locked. */
export const findMove = (sql: SqlClient.SqlClient, name: string) =>
  moveRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM organization_moves
    WHERE name = ${name}
    ORDER BY changed_at DESC
    LIMIT 1
    FOR UPDATE
  `)

/** The last move of an organization by its id, with its row locked. */
export const findMoveById = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  moveRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM organization_moves
    WHERE org_id = ${org_id}
    FOR UPDATE
  `)

/** At most this many moves are listed. */
const MAX_LISTED = 1_000

/** The newest moves. */
export const listMoves = (sql: SqlClient.SqlClient) =>
  moveRows.all(sql`
    SELECT ${sql.literal(columns)}
    FROM organization_moves
    ORDER BY changed_at DESC
    LIMIT ${MAX_LISTED}
  `)

/** The last copy of an organization that leaves this installation. */
export const CopyRow = Schema.Struct({
  org_id: OrgId,
  copy_id: Schema.String,
  name: Schema.String,
  created_at: Schema.DateTimeUtcFromDate,
  schema_version: Schema.Int,
  row_count: Schema.Number,
  receipt: Schema.String,
  transfer_key: Schema.NullOr(Schema.String)
})
export type CopyRow = typeof CopyRow.Type

const copyRows = rowsOf(CopyRow)
const copyColumns =
  "org_id, copy_id, name, created_at, schema_version, row_count::float8 AS row_count, receipt, transfer_key"

/** The last copy of an organization. */
export const findCopy = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  copyRows.first(sql`SELECT ${sql.literal(copyColumns)} FROM organization_copies WHERE org_id = ${org_id}`)

/** The last copy of the organization with this name. */
export const findCopyByName = (sql: SqlClient.SqlClient, name: string) =>
  copyRows.first(sql`
    SELECT ${sql.literal(copyColumns)}
    FROM organization_copies
    WHERE name = ${name}
    ORDER BY created_at DESC
    LIMIT 1
  `)

/** The newest copies. */
export const listCopies = (sql: SqlClient.SqlClient) =>
  copyRows.all(sql`
    SELECT ${sql.literal(copyColumns)}
    FROM organization_copies
    ORDER BY created_at DESC
    LIMIT ${MAX_LISTED}
  `)

/** "csoc" in ASCII: the seed of the advisory locks of copies, one per organization. */
const COPY_LOCK = 0x63_73_6f_63

/** Until the transaction ends, no other command copies the organization, and no export freezes it. Refused if another command has the lock. */
export const lockCopies = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { name, org_id }: { readonly org_id: OrgId; readonly name: string }
) {
  const [lock] = yield* sql<{ readonly acquired: boolean }>`
    SELECT pg_try_advisory_xact_lock(hashtextextended(${org_id}::text, ${COPY_LOCK}::bigint)) AS acquired
  `
  if (lock?.acquired !== true) {
    return yield* new MoveRefused({
      message: `Another command is copying ${name}. Wait until it ends, or end it. Nothing was changed.`
    })
  }
})

/** Deletes the records of a copy here. */
export const deleteCopy = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  // This row first, which an export locks.
  yield* sql`DELETE FROM organization_copies WHERE org_id = ${org_id}`
  yield* sql`DELETE FROM organization_copy_rows WHERE org_id = ${org_id}`
})

/** The move cannot go on like this; the message says what to do. */
export class MoveRefused extends Schema.TaggedError<MoveRefused>()("MoveRefused", {
  message: Schema.String
}) {}

/** A code of 128 random bits. */
export const makeCode = (): string => randomBytes(16).toString("hex")

/** SHA-256 of a code, in hex. */
export const codeDigest = (code: string): string => createHash("sha256").update(code).digest("hex")
