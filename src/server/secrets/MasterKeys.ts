import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction } from "../store/Database/transaction.ts"
import { SecretBox, type SecretUnreadable } from "./SecretBox.ts"
import { placeOf, type SealedColumn, sealedColumns } from "./SecretBox/sealedColumns.ts"
import { prefixOf } from "./SecretBox/Sealed.ts"

/** Something in the store was sealed with a master key that is not configured. The message is one line and names keys by their ids. */
export class MasterKeyMissing extends Schema.TaggedError<MasterKeyMissing>()("MasterKeyMissing", {
  key_id: Schema.String,
  where: Schema.String
}) {
  override get message(): string {
    return `the store holds secrets that were sealed with master key ${this.key_id} (${this.where}), which is not configured: put it back, behind the newest in COUNTERSIGN_MASTER_KEY or into the file master-key of the data directory`
  }
}

/** The ids of the keys that have sealed something in the store; none in one that was never used. */
export const listUsedKeyIds: Effect.Effect<
  ReadonlyArray<string>,
  SqlError.SqlError,
  SqlClient.SqlClient
> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ readonly there: boolean }>`
    SELECT to_regclass('master_keys') IS NOT NULL AS there
  `
  if (table?.there !== true) return []
  const rows = yield* sql<{ readonly key_id: string }>`
    SELECT key_id
    FROM master_keys
    ORDER BY first_used_at DESC
  `
  return rows.map(({ key_id }) => key_id)
})

/**
 * Refuses a ring that lacks a key under which something is still sealed, and enters the key that writes. A key that nothing is left of
 * is forgotten.
 */
export const checkMasterKeys = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const missing = (yield* listUsedKeyIds).filter((id) => !box.keyIds.includes(id))
  for (const key_id of missing) {
    const left = yield* findSealedWith(sql, key_id)
    if (left !== undefined) {
      return yield* new MasterKeyMissing({ key_id, where: `${left.table}.${left.column}` })
    }
    yield* sql`DELETE FROM master_keys WHERE key_id = ${key_id}`
  }
  const [writing] = box.keyIds
  yield* sql`
    INSERT INTO master_keys (key_id, first_used_at)
    VALUES (${writing}, now())
    ON CONFLICT (key_id) DO NOTHING
  `
})

/** {@link checkMasterKeys} while the layer is built, over a migrated store. */
export const layerCheckMasterKeys = Layer.effectDiscard(checkMasterKeys)

/** Runs a statement that may read a whole table, or wait for a row: the times that callers wait at most are none that this has to keep. */
const withoutTimeouts = <A, E>(sql: SqlClient.SqlClient, statement: Effect.Effect<A, E>) =>
  sql`SET LOCAL statement_timeout = 0`.pipe(
    Effect.andThen(sql`SET LOCAL lock_timeout = 0`),
    Effect.andThen(statement),
    transaction,
    Effect.provideService(SqlClient.SqlClient, sql)
  )

/** A column in which a value is sealed with that key. Reads whole tables: asked only about keys that are not configured. */
const findSealedWith = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, key_id: string) {
  for (const sealed of sealedColumns) {
    const rows = yield* withoutTimeouts(
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

/** Rows that one step seals anew: short transactions beside a running service. */
const BATCH_ROWS = 100

/** What a rotation did. */
export interface RotationResult {
  /** Values sealed anew. */
  readonly resealed: number
  /** Values that do not open: they stay as they are. */
  readonly unreadable: ReadonlyArray<SecretUnreadable>
}

/**
 * Seals every value anew that an older key sealed, in steps of a hundred rows, beside services that know both keys. A value that
 * changes meanwhile is left to who changed it. It may be stopped at any time and run again.
 */
export const rotateMasterKey = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const unreadable: Array<SecretUnreadable> = []
  let resealed = 0
  for (const sealed of sealedColumns) {
    let after: ReadonlyArray<string> | undefined = []
    while (after !== undefined) {
      const step: ResealBatch = yield* resealBatch(sql, sealed, after)
      resealed += step.resealed
      unreadable.push(...step.unreadable)
      after = step.after
    }
  }
  return { resealed, unreadable } satisfies RotationResult
})

interface ResealBatch extends RotationResult {
  /** The last row's organization and key; undefined: there are no more. */
  readonly after: ReadonlyArray<string> | undefined
}

/** Seals the next rows of a column anew, in the order of their keys. */
const resealBatch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  sealed: SealedColumn,
  after: ReadonlyArray<string>
): Effect.fn.Return<ResealBatch, SqlError.SqlError | Schema.SchemaError, SecretBox> {
  const box = yield* SecretBox
  const names = ["org_id", ...sealed.key]
  const columns = sql.literal(names.map((name) => `"${name}"`).join(", "))
  const column = sql(sealed.column)
  const rows = yield* withoutTimeouts(
    sql,
    sql`
      SELECT json_build_array(${columns})::text AS place, ${column} AS value
      FROM ${sql(sealed.table)}
      WHERE substr(${column}, 1, 9) <> ${box.writingPrefix}
        ${after.length === 0 ? sql.literal("") : sql`AND (${columns}) > ${sql.in(after)}`}
      ORDER BY ${columns}
      LIMIT ${BATCH_ROWS}
    `
  ).pipe(Effect.flatMap(decodeRows))

  const unreadable: Array<SecretUnreadable> = []
  let resealed = 0
  for (const { place, value } of rows) {
    const [org_id = "", ...key] = place
    const anew = yield* Effect.result(box.reseal(placeOf(sealed, org_id, key), value))
    if (anew._tag === "Failure") {
      unreadable.push(anew.failure)
      continue
    }
    if (Option.isNone(anew.success)) continue
    const changed = yield* withoutTimeouts(
      sql,
      sql`
        UPDATE ${sql(sealed.table)}
        SET ${column} = ${anew.success.value}
        WHERE ${sql.and(names.map((name, index) => sql`${sql(name)} = ${place[index] ?? ""}`))}
          AND ${column} = ${value}
        RETURNING 1 AS changed
      `
    )
    resealed += changed.length
  }
  return { resealed, unreadable, after: rows.length < BATCH_ROWS ? undefined : rows.at(-1)?.place }
})

const decodeRows = Schema.decodeUnknownEffect(
  Schema.Array(
    Schema.Struct({ place: Schema.fromJsonString(Schema.Array(Schema.String)), value: Schema.Uint8Array })
  )
)
