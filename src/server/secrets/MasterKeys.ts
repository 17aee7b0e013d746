import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction } from "../store/transaction.ts"
import { rowsOf } from "../store/rows.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { OrgId } from "../../domain/Ids.ts"
import { SecretBox, type SecretUnreadable } from "./SecretBox.ts"
import { placeOf, type SealedColumn, sealedColumns } from "./SecretBox/sealedColumns.ts"
import { prefixOf } from "./SecretBox/Sealed.ts"

/** A stored secret was sealed with a master key that is not configured. The message is one line and names keys by their ids. */
export class MasterKeyMissing extends Schema.TaggedError<MasterKeyMissing>()("MasterKeyMissing", {
  key_id: Schema.String,
  where: Schema.String
}) {
  override get message(): string {
    return `the database contains secrets sealed with master key ${this.key_id} (${this.where}), which is not configured: add it after the first key in COUNTERSIGN_MASTER_KEY, or restore the file master-key of the data directory`
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

/**
 * Fails if the key ring lacks a key that still seals a stored secret. Registers the newest key, and deletes the records of keys that no
 * longer seal anything.
 */
export const checkMasterKeys = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const missing = (yield* listUsedKeyIds).filter((id) => !box.keyIds.includes(id))
  for (const key_id of missing) {
    const sealed = yield* findSealedWith(sql, key_id)
    if (sealed !== undefined) {
      return yield* new MasterKeyMissing({ key_id, where: `${sealed.table}.${sealed.column}` })
    }
    yield* sql`DELETE FROM master_keys WHERE key_id = ${key_id}`
  }
  const [primary] = box.keyIds
  yield* sql`
    INSERT INTO master_keys (key_id, first_used_at)
    VALUES (${primary}, now())
    ON CONFLICT (key_id) DO NOTHING
  `
})

/** Runs {@link checkMasterKeys} while the layer is built. Requires a migrated database. */
export const layerCheckMasterKeys = Layer.effectDiscard(checkMasterKeys)

/** Runs a statement in a transaction of its own. It may read a whole table or wait long for a row lock. */
const runPatiently = <A, E>(sql: SqlClient.SqlClient, statement: Effect.Effect<A, E>) =>
  withoutTimeouts(statement).pipe(transaction, Effect.provideService(SqlClient.SqlClient, sql))

/** Finds a column with a value that this key sealed. Reads whole tables, so call it only for keys that are not configured. */
const findSealedWith = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, key_id: string) {
  for (const sealed of sealedColumns) {
    const rows = yield* runPatiently(
      sql,
      sql`
        SELECT 1 AS found
        FROM ${sql(sealed.table)}
        WHERE substr(${sql(sealed.column)}, 1, 9) = ${prefixOf({ id: key_id })}
        LIMIT 1
      `
    )
    if (rows.length > 0) return sealed
  }
  return undefined
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
