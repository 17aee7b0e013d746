import { type Array as Arr, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction } from "../store/transaction.ts"
import { rowsOf } from "../store/rows.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { OrgId } from "../../domain/Ids.ts"
import { SecretBox, type SecretUnreadable } from "./SecretBox.ts"
import { placeOf, type SealedColumn, sealedColumns } from "./SecretBox/sealedColumns.ts"
import { keyIdOf, PREFIX_BYTES, prefixOf, VERSION_PREFIX } from "./SecretBox/Sealed.ts"

/** A stored secret was sealed with a master key that is not configured. The message is one line and names keys by their ids. */
export class MasterKeyMissing extends Schema.TaggedError<MasterKeyMissing>()("MasterKeyMissing", {
  key_id: Schema.String,
  where: Schema.String
}) {
  override get message(): string {
    return `the database contains secrets sealed with master key ${this.key_id} (${this.where}), which is not configured: add it after the first key in COUNTERSIGN_MASTER_KEY, or restore the file master-key of the data directory`
  }
}

/**
 * The database is registered for a master key that is not configured, although no stored secret needs it yet. Running replicas may seal with
 * it at any time, so another key is refused: else replicas would seal with different keys.
 */
export class MasterKeyDiffers extends Schema.TaggedError<MasterKeyDiffers>()("MasterKeyDiffers", {
  key_id: Schema.String,
  configured: Schema.String
}) {
  override get message(): string {
    return (
      `the database was first used with master key ${this.key_id}, but ${this.configured} is configured: set COUNTERSIGN_MASTER_KEY to that ` +
      `key, list it after the new one to rotate, or restore the file master-key of the data directory; if it is lost, nothing is sealed ` +
      `with it: stop every replica, and run DELETE FROM master_keys WHERE key_id = '${this.key_id}' in the database`
    )
  }
}

/** The ids of the master keys that have sealed secrets in the database, newest first; none before the first start. */
export const listUsedKeyIds: Effect.Effect<
  ReadonlyArray<string>,
  SqlError.SqlError,
  SqlClient.SqlClient
> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ readonly exists: boolean }>`
    SELECT to_regclass('master_keys') IS NOT NULL AS exists
  `
  if (table?.exists !== true) return []
  const rows = yield* sql<{ readonly key_id: string }>`
    SELECT key_id
    FROM master_keys
    ORDER BY first_used_at DESC
  `
  return rows.map(({ key_id }) => key_id)
})

/** Why a ring of keys must not be used although no stored secret needs another one; undefined if it may be. Ids are listed newest first. */
export const findDifference = (
  keyIds: Arr.NonEmptyReadonlyArray<string>,
  registered: ReadonlyArray<string>
): MasterKeyDiffers | undefined => {
  const [newest] = registered
  return newest === undefined || registered.some((id) => keyIds.includes(id))
    ? undefined
    : new MasterKeyDiffers({ key_id: newest, configured: keyIds[0] })
}

/** Fails if the key ring has none of the master keys for which the database is registered. */
const requireRegisteredKey = (
  { keyIds }: SecretBox["Service"],
  registered: ReadonlyArray<string>
): Effect.Effect<void, MasterKeyDiffers> => findDifference(keyIds, registered) ?? Effect.void

/**
 * Fails if a stored secret was sealed with a key that the key ring lacks, or if the database is registered for other keys only. Only reads.
 * `columns` are the columns that are read; default: all. Returns the registered keys that the ring lacks: they seal nothing there.
 */
export const verifyMasterKeys = Effect.fn("MasterKeys.verifyMasterKeys")(function* (
  columns: ReadonlyArray<SealedColumn> = sealedColumns
) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const registered = yield* listUsedKeyIds
  const foreign = yield* findSealedElsewhere(sql, box, columns)
  if (foreign !== undefined) return yield* new MasterKeyMissing(foreign)
  yield* requireRegisteredKey(box, registered)
  return registered.filter((id) => !box.keyIds.includes(id))
})

/** The columns that are read at every start, and for a metric. Deliveries and responses can be millions of rows, and expire. */
export const lastingColumns = sealedColumns.filter(({ expires }) => expires !== true)

/**
 * Checks the key ring as {@link verifyMasterKeys} does, and registers the sealing key before this process seals with it. The first key of a
 * database wins: a process with another key is refused, also if both start at the same time. Columns whose rows expire are read only if a
 * key is registered that the ring lacks, or none is.
 */
export const checkMasterKeys = Effect.gen(function* () {
  const box = yield* SecretBox
  const [primary] = box.keyIds
  const registered = yield* listUsedKeyIds
  const isUsual = registered.includes(primary) && registered.every((id) => box.keyIds.includes(id))
  const unused = yield* verifyMasterKeys(isUsual ? lastingColumns : sealedColumns)
  if (isUsual) return
  yield* registerPrimary(unused).pipe(transaction)
})

/**
 * Registers the sealing key, and deletes the records of `unused` keys unless replicas run: one of them could still seal with such a key.
 * The lock makes concurrent starts register one after the other, each with the keys that the others have registered.
 */
const registerPrimary = Effect.fnUntraced(function* (unused: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  yield* sql`LOCK TABLE master_keys IN SHARE ROW EXCLUSIVE MODE`
  yield* requireRegisteredKey(box, yield* listUsedKeyIds)
  yield* sql`
    INSERT INTO master_keys (key_id, first_used_at)
    VALUES (${box.keyIds[0]}, now())
    ON CONFLICT (key_id) DO NOTHING
  `
  if (unused.length === 0) return
  yield* sql`
    DELETE FROM master_keys
    WHERE key_id IN ${sql.in(unused)}
      AND NOT EXISTS (SELECT FROM delivery_owners WHERE lease_until > clock_timestamp())
  `
})

/** Runs {@link checkMasterKeys} while the layer is built. Requires a migrated database. */
export const layerCheckMasterKeys = Layer.effectDiscard(checkMasterKeys)

/** Runs a statement in a transaction of its own. It may read a whole table or wait long for a row lock. */
const runPatiently = <A, E>(sql: SqlClient.SqlClient, statement: Effect.Effect<A, E>) =>
  withoutTimeouts(statement).pipe(transaction, Effect.provideService(SqlClient.SqlClient, sql))

/**
 * Finds a value that a key outside of the ring sealed. Reads whole tables. A value that is not in the format of a sealed one is no reason to
 * refuse a start: see {@link rotateMasterKey}.
 */
const findSealedElsewhere = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  columns: ReadonlyArray<SealedColumn>
) {
  const known = sql.in(box.keyIds.map((id) => prefixOf({ id })))
  const searches = columns.map(({ column, table }) => {
    const prefix = sql.literal(`substr("${column}", 1, ${PREFIX_BYTES})`)
    return sql`(
      SELECT ${sql.literal(`'${table}.${column}'::text`)} AS place, ${prefix} AS prefix
      FROM ${sql(table)}
      WHERE NOT (${prefix} IN ${known}) AND substr(${sql(column)}, 1, 1) = ${VERSION_PREFIX}
      LIMIT 1
    )`
  })
  const [search, ...others] = searches
  if (search === undefined) return undefined
  const rows = yield* runPatiently(
    sql,
    sql<{ readonly place: string; readonly prefix: Uint8Array }>`
      ${others.reduce((all, other) => sql`${all} UNION ALL ${other}`, search)}
      LIMIT 1
    `
  )
  const [row] = rows
  return row === undefined ? undefined : { where: row.place, key_id: keyIdOf(row.prefix) ?? "unknown" }
})

/** Rows per batch: short transactions, because the service is running. */
const BATCH_ROWS = 100

/** The result of a rotation. */
export interface RotationResult {
  /** Values that were resealed. */
  readonly resealed: number
  /** Values that could not be unsealed. They are unchanged. */
  readonly unreadable: ReadonlyArray<SecretUnreadable>
}

/** Records that an organization's secrets are resealed. Runs in the transaction that reseals the first of them. */
export type RecordReseal = (org_id: OrgId) => Effect.Effect<void>

/**
 * Reseals every value that an older key sealed, in batches of 100 rows, while replicas that have both keys keep running. A value that is
 * written concurrently is left as its writer sealed it. The rotation can be stopped at any time and run again.
 */
export const rotateMasterKey = Effect.fnUntraced(function* (
  record: RecordReseal,
  /** Called with the number of resealed values, after each batch. */
  onProgress: (resealed: number) => void = () => undefined
) {
  const sql = yield* SqlClient.SqlClient
  const recorded = new Set<OrgId>()
  const unreadable: Array<SecretUnreadable> = []
  let resealed = 0
  for (const sealed of sealedColumns) {
    let after: ReadonlyArray<string> | undefined = []
    while (after !== undefined) {
      const batch: ResealBatch = yield* resealBatch(sql, sealed, after, { record, recorded })
      resealed += batch.resealed
      unreadable.push(...batch.unreadable)
      onProgress(resealed)
      after = batch.after
    }
  }
  return { resealed, unreadable } satisfies RotationResult
})

interface ResealBatch extends RotationResult {
  /** The organization and key of the last row; `undefined` after the last batch. */
  readonly after: ReadonlyArray<string> | undefined
}

/** Reseals the next rows of a column, in key order. */
const resealBatch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  sealed: SealedColumn,
  after: ReadonlyArray<string>,
  { record, recorded }: { readonly record: RecordReseal; readonly recorded: Set<OrgId> }
): Effect.fn.Return<ResealBatch, SqlError.SqlError, SecretBox> {
  const box = yield* SecretBox
  const names = ["org_id", ...sealed.key]
  const columns = sql.literal(names.map((name) => `"${name}"`).join(", "))
  const column = sql(sealed.column)
  const rows = yield* runPatiently(
    sql,
    sql`
      SELECT json_build_array(${columns})::text AS place, ${column} AS value
      FROM ${sql(sealed.table)}
      WHERE substr(${column}, 1, 9) <> ${box.primaryPrefix}
        ${after.length === 0 ? sql.literal("") : sql`AND (${columns}) > ${sql.in(after)}`}
      ORDER BY ${columns}
      LIMIT ${BATCH_ROWS}
    `
  ).pipe(sealedRows.all)

  const unreadable: Array<SecretUnreadable> = []
  let resealed = 0
  for (const { place, value } of rows) {
    const [org, ...key] = place
    const org_id = OrgId.make(org ?? "")
    const result = yield* Effect.result(box.reseal(placeOf(sealed, org_id, key), value))
    if (result._tag === "Failure") {
      unreadable.push(result.failure)
      continue
    }
    if (Option.isNone(result.success)) continue
    const changed = yield* runPatiently(
      sql,
      sql`
        UPDATE ${sql(sealed.table)}
        SET ${column} = ${result.success.value}
        WHERE ${sql.and(names.map((name, index) => sql`${sql(name)} = ${place[index] ?? ""}`))}
          AND ${column} = ${value}
        RETURNING 1 AS changed
      `.pipe(Effect.tap((rows) => (rows.length === 0 || recorded.has(org_id) ? Effect.void : record(org_id))))
    )
    if (changed.length > 0) recorded.add(org_id)
    resealed += changed.length
  }
  return { resealed, unreadable, after: rows.length < BATCH_ROWS ? undefined : rows.at(-1)?.place }
})

const sealedRows = rowsOf(
  Schema.Struct({
    /** The row's organization and key. */
    place: Schema.fromJsonString(Schema.Array(Schema.String)),
    value: Schema.Uint8Array
  })
)
