import { Data, Effect, Option, Result, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { shardOf } from "../delivery/Delivery/virtualShards.ts"
import { MOVE_POLL_MILLIS } from "../identity/OrganizationMoves.ts"
import { latestMigration, requireSameSchema } from "../store/Database/schemaVersion.ts"
import { int4Array, textArray } from "../store/pgArrays.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomicWithoutRetry, isLostRace, transaction } from "../store/transaction.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { bypassFence, installFence, moveEnded } from "./fence.ts"
import { addRemovedKeys, createRemovedKeys, removeRows } from "./changedRows.ts"
import { CopyEnd, CopyHeader, FileEnd, FileHeader, RemovedRow, TableStart } from "./Manifest.ts"
import { listMovedTables, type MovedTable, quoted } from "./movedTables.ts"
import { findMoveById, MoveRefused, type MoveRow } from "./moveState.ts"
import { decodeRow, digestTable, type MovedRow, sealRow } from "./readTable.ts"
import { readReports, silentReplicas } from "./replicaReports.ts"
import type { RowsDigest } from "./rowsDigest.ts"
import { tryFile } from "./transfer/transferFile.ts"

/** Rows and characters of one INSERT. */
const BATCH_ROWS = 1_000
const BATCH_CHARACTERS = 2 ** 20

/** Replicas hold the organization's deliveries after at most this time. */
const NOTICE_MILLIS = 2 * MOVE_POLL_MILLIS + 500

/** How long the import waits for replicas that do not report. */
const MAX_NOTICE_MILLIS = 30_000

/** The first line of a file: of an export, or of a copy. */
type Header = FileHeader | CopyHeader

const isCopy = (header: Header): header is CopyHeader => header.format === "countersign-organization-copy"

/** The copy that the file completes; null: it has every row. */
const sinceOf = (header: Header): string | null => (isCopy(header) ? null : (header.since ?? null))

/** Waits until all replicas hold the organization's deliveries. Refused if some of them do not. */
const waitForReplicas = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  header: Header,
  begunMillis: number,
  maxMillis: number
) {
  const clock = yield* StoreClock
  yield* Effect.sleep(Math.max(0, begunMillis + NOTICE_MILLIS - (yield* clock.now).epochMilliseconds))
  for (let waited = NOTICE_MILLIS; ; waited += MOVE_POLL_MILLIS) {
    const { silent } = yield* readReports(sql, header)
    if (silent === 0) return
    if (waited >= maxMillis) return yield* silentReplicas(silent)
    yield* Effect.sleep(MOVE_POLL_MILLIS)
  }
})

const refuse = (message: string) => new MoveRefused({ message })
const malformed = refuse("The file's content is not that of an export. Nothing was imported.")

const decodeHeader = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Union([FileHeader, CopyHeader])))
const decodeEnd = Schema.decodeUnknownEffect(Schema.fromJsonString(FileEnd))
const decodeCopyEnd = Schema.decodeUnknownEffect(Schema.fromJsonString(CopyEnd))
const decodeStart = Schema.decodeUnknownOption(Schema.fromJsonString(TableStart))
const REMOVED = '{"removed":'
const decodeRemoved = Schema.decodeUnknownOption(Schema.fromJsonString(RemovedRow))

/** Fails unless the file has exactly these tables and columns. */
const checkHeader = Effect.fnUntraced(function* (header: Header, tables: ReadonlyArray<MovedTable>) {
  if (header.schema !== latestMigration) {
    return yield* refuse(
      `The file has schema version ${header.schema}, and this installation ${latestMigration}. Upgrade the older one, then ` +
        `${isCopy(header) ? "copy" : "export"} again.`
    )
  }
  const own = tables.map(({ columns, name }) => [name, ...columns.map((column) => column.name)].join())
  const given = header.tables.map(({ columns, name }) => [name, ...columns].join())
  if (own.join(";") !== given.join(";")) {
    const differing = [...tables, ...header.tables].find(({ name }) => {
      const starts = (table: string) => table.split(",", 1)[0] === name
      return own.find(starts) !== given.find(starts)
    })
    return yield* refuse(
      `The tables of the file differ from those of this installation${differing === undefined ? "" : `, such as ${differing.name}`}. ` +
        "A table with a column org_id, or a column, is not of this version in one of them: remove it there, then " +
        `${isCopy(header) ? "copy" : "export"} again.`
    )
  }
})

/** Fails if rows of an earlier import or copy are here that the file does not belong to. */
const checkRowsHere = Effect.fnUntraced(function* (before: MoveRow | undefined, header: Header) {
  const since = sinceOf(header)
  // In other states there are no rows.
  const loaded = before?.state === "copied" || before?.state === "importing" ? before.copy_id : null
  if (loaded === since) return
  const { name } = header
  return yield* refuse(
    since === null
      ? `A copy of ${name} is loaded here, and this file does not complete it. Export again with --since-copy, or run countersign org abort here ` +
          "and import this file."
      : `This file has only what has changed in ${name} since a copy that is not loaded here. Import the file of that copy first, then this one.`
  )
})

/** Registers the import, unless the organization is here already. Returns the receipt of an import that is done. */
const begin = (sql: SqlClient.SqlClient, header: Header) =>
  transaction(
    Effect.gen(function* () {
      const { move_id, name, org_id } = header
      const now = yield* (yield* StoreClock).now
      const before = yield* findMoveById(sql, org_id)
      const done = isCopy(header) ? ["copied"] : ["staged", "arrived"]
      if (before?.move_id === move_id && done.includes(before.state)) {
        return { receipt: before.receipt, begunMillis: now.epochMilliseconds }
      }
      // Once the abort is over, the same file can be imported again: its release code shows whether it may be activated. After a commit it
      // is the only way on.
      if (before?.state === "discarded" && before.is_fenced) {
        return yield* refuse(
          `An abort of an earlier import of ${name} is not finished. Run countersign org abort, then import this file again.`
        )
      }
      // Its release code was used: with it, the file would make an old state of the organization active a second time.
      if (before !== undefined && !isCopy(header) && header.release === before.arrival_release_code) {
        return yield* refuse(
          `${name} was active here with this export, and has left since. Import its newest export where it is to be.`
        )
      }
      if (before?.state === "frozen" || before?.state === "moved") {
        return yield* refuse(`${name} moves away from this installation. Import it in another one.`)
      }
      if (before?.state === "staged") {
        return yield* refuse(
          `An earlier export of ${name} is imported here. Run countersign org abort, then import this one.`
        )
      }
      yield* checkRowsHere(before, header)
      const taken =
        yield* sql`SELECT 1 AS found FROM organizations WHERE org_id = ${org_id} OR name = ${name}`
      if (taken.length > 0)
        return yield* refuse(`This installation has an organization named ${name} already.`)
      yield* sql`
        INSERT INTO organization_moves (org_id, move_id, name, state, is_fenced, started_at, changed_at, copy_id)
        VALUES (${org_id}, ${move_id}, ${name}, 'importing', true, ${toDate(now)}, ${toDate(now)}, ${sinceOf(header)})
        ON CONFLICT (org_id) DO UPDATE
        SET
          move_id = excluded.move_id, name = excluded.name, state = excluded.state, is_fenced = true,
          started_at = excluded.started_at, changed_at = excluded.changed_at, copy_id = excluded.copy_id,
          moved_to = NULL, row_count = NULL, receipt = NULL, release_code = NULL, activation_code = NULL,
          arrival_release_code = NULL, arrival_activation_code = NULL,
          transfer_key = NULL, export_receipt = NULL, export_activation = NULL
      `
      // Reports of an earlier attempt.
      yield* sql`DELETE FROM organization_move_replicas WHERE org_id = ${org_id}`
      return { receipt: null, begunMillis: now.epochMilliseconds }
    })
  ).pipe(Effect.provideService(SqlClient.SqlClient, sql))

/** Updates a row that is here already, for a table whose rows have children. */
const onConflict = (table: MovedTable): string => {
  const key = new Set(["org_id", ...table.key.map(({ name }) => name)])
  const changed = table.columns
    .filter(({ name }) => !key.has(name))
    .map(({ name }) => `${quoted(name)} = excluded.${quoted(name)}`)
  return ` ON CONFLICT (${[...key].map(quoted).join(", ")}) DO ${changed.length === 0 ? "NOTHING" : `UPDATE SET ${changed.join(", ")}`}`
}

/** Inserts rows. Every value is a parameter, read by the input function of its column's type. */
const insertRows = (
  sql: SqlClient.SqlClient,
  table: MovedTable,
  rows: ReadonlyArray<MovedRow>,
  since: string | null
) => {
  const isQueue = table.name === "delivery_queue"
  const names = table.columns.map(({ name }) => quoted(name))
  const arrays = table.columns.map((_, index) => textArray(rows.map((row) => row[index] ?? null)))
  const destination = table.columns.findIndex(({ name }) => name === "destination_id")
  const parameters = isQueue
    ? [...arrays, int4Array(rows.map((row) => shardOf(row[destination] ?? "")))]
    : arrays
  const values = table.columns.map(({ type }, index) => `c${index}::${type}`)
  return sql.unsafe(
    `INSERT INTO ${quoted(table.name)} (${[...names, ...(isQueue ? ["shard"] : [])].join(", ")}) ` +
      `SELECT ${[...values, ...(isQueue ? ["shard::smallint"] : [])].join(", ")} ` +
      `FROM unnest(${parameters.map((_, index) => `$${index + 1}`).join(", ")}) WITH ORDINALITY ` +
      `AS given (${[...arrays.keys()].map((index) => `c${index}`).join(", ")}${isQueue ? ", shard" : ""}, position) ` +
      `ORDER BY position` +
      (since !== null && table.isCopied && table.isParent ? onConflict(table) : ""),
    parameters
  )
}

/** Row data that violates a constraint is not one of a service's export, or collides with another organization. */
const explainConstraint = (table: string) => (error: SqlError.SqlError) => {
  const { reason } = error
  return reason._tag === "UniqueViolation"
    ? refuse(
        `A row of ${table} exists in this installation already (${reason.constraint}). Nothing was imported.`
      )
    : error
}

/** An import and another command waited for each other's locks, such as an abort that deletes the rows of a copy. */
class LostRace extends Data.TaggedError("LostRace")<{ readonly cause: unknown }> {}

/** The result of an import. */
export interface ImportedOrganization {
  readonly org_id: OrgId
  readonly name: string
  readonly receipt: string
  /** Whether the file is a copy, which an import must complete. */
  readonly isCopy: boolean
  /** Whether an earlier run imported the file. */
  readonly isRepeated: boolean
  readonly rows: number
}

/**
 * Imports the lines of a file in one transaction: all rows or none. Then it compares the digests of all rows of the organization here
 * with those of the file. The organization is not active: it is fenced until it is activated.
 *
 * A copy is loaded in the same way, without the organization's own row. An export after it has the rows that differ, and keys of those
 * to delete.
 */
export const importOrganization = Effect.fnUntraced(function* (
  lines: AsyncIterable<string>,
  onProgress: (rows: number) => void = () => undefined,
  maxNoticeMillis: number = MAX_NOTICE_MILLIS
) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const iterator = lines[Symbol.asyncIterator]()
  const next = Effect.flatMap(
    tryFile(() => iterator.next()),
    (result) => (result.done === true ? Effect.fail(malformed) : Effect.succeed(result.value))
  )

  const header = yield* Effect.flatMap(next, decodeHeader).pipe(
    Effect.mapError((error) => (Schema.isSchemaError(error) ? malformed : error))
  )
  const { name, org_id } = header
  const since = sinceOf(header)
  const tables = (yield* listMovedTables(sql)).filter((table) => table.isCopied || !isCopy(header))
  yield* checkHeader(header, tables)
  const { begunMillis, receipt: done } = yield* begin(sql, header)
  const result = { org_id, name, isCopy: isCopy(header) }
  if (done !== null) {
    const repeated: ImportedOrganization = { ...result, receipt: done, isRepeated: true, rows: 0 }
    return repeated
  }
  yield* installFence(sql, header, { keepsExisting: since !== null })
  // After a copy the replicas are checked at the end: they hold the organization's deliveries since it was loaded.
  if (since === null) yield* waitForReplicas(sql, header, begunMillis, maxNoticeMillis)

  /** Reads the rows of one table, and returns the line that follows them. */
  const insertTable = Effect.fnUntraced(function* (
    table: MovedTable,
    count: (rows: number, keys: number) => void
  ) {
    const orgColumn = table.columns.findIndex((column) => column.name === "org_id")
    const hasSecrets = table.columns.some(({ sealed }) => sealed !== undefined)
    let removed: Array<string> = []
    let hasRemoved = false
    let hasRows = false
    let batch: Array<MovedRow> = []
    let characters = 0
    const flush = Effect.gen(function* () {
      const [keys, rows] = [removed, batch]
      removed = []
      batch = []
      characters = 0
      if (keys.length > 0) yield* addRemovedKeys(sql, keys)
      if (rows.length > 0) {
        yield* Effect.mapError(insertRows(sql, table, rows, since), explainConstraint(table.name))
      }
      count(rows.length, keys.length)
    })
    /** Before the first row is inserted. */
    const remove = Effect.suspend(() => {
      if (!hasRemoved) return Effect.void
      hasRemoved = false
      return Effect.andThen(flush, removeRows(sql, table, org_id))
    })
    for (;;) {
      const line = yield* next
      if (line.startsWith("[")) {
        const decoded = Result.try(() => decodeRow(line))
        if (Result.isFailure(decoded)) return yield* malformed
        const row = decoded.success
        if (row.length !== table.columns.length || row[orgColumn] !== org_id) return yield* malformed
        yield* remove
        hasRows = true
        batch.push(hasSecrets ? yield* sealRow(table, org_id, row) : row)
      } else {
        const key = line.startsWith(REMOVED) ? decodeRemoved(line) : Option.none()
        if (Option.isNone(key)) {
          yield* remove
          yield* flush
          return line
        }
        const isAllowed = since !== null && table.isCopied && !hasRows
        if (!isAllowed || key.value.removed.length !== table.key.length) return yield* malformed
        hasRemoved = true
        // As PostgreSQL writes the key of the row here.
        removed.push(line.slice(REMOVED.length, -1))
      }
      characters += line.length
      if (batch.length + removed.length >= BATCH_ROWS || characters >= BATCH_CHARACTERS) yield* flush
    }
  })

  const importAll = Effect.gen(function* () {
    yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
    // Migrations wait for this transaction, which has read their table: they would not change rows that it has not committed.
    yield* requireSameSchema
    yield* bypassFence(sql)
    yield* createRemovedKeys(sql)
    let rows = 0
    let lines = 0
    const digests = new Map<string, RowsDigest>()
    const count = (addedRows: number, removedKeys: number) => {
      rows += addedRows
      onProgress((lines += addedRows + removedKeys))
    }
    let line = yield* next
    for (const table of tables) {
      const start = decodeStart(line)
      if (Option.isNone(start) || start.value.table !== table.name) return yield* malformed
      line = yield* insertTable(table, count)
      // Nothing that follows changes its rows: an export that comes through a pipe goes on with the next table meanwhile.
      if (since !== null && table.isCopied) digests.set(table.name, yield* digestTable(sql, table, org_id))
    }
    const end = yield* Effect.mapError(
      isCopy(header) ? decodeCopyEnd(line) : decodeEnd(line),
      () => malformed
    )
    // The file ends here: its last chunk is authentic.
    const rest = yield* tryFile(() => iterator.next())
    if (rest.done !== true) return yield* malformed
    for (const table of tables) {
      const stored = digests.get(table.name) ?? (yield* digestTable(sql, table, org_id))
      const given = end.tables[table.name]
      if (stored.rows !== given?.rows || stored.digest !== given.digest) {
        return yield* refuse(
          `The rows of ${table.name} differ from those of the file. Nothing was imported.` +
            (since === null
              ? ""
              : " Run countersign org abort here, then import a whole export: countersign org export without --since-copy.")
        )
      }
    }
    const named = yield* sql`SELECT 1 AS found FROM organizations WHERE org_id = ${org_id} AND name = ${name}`
    // A copy is no organization yet.
    if (named.length !== (isCopy(header) ? 0 : 1)) return yield* malformed
    if (since !== null) yield* waitForReplicas(sql, header, begunMillis, maxNoticeMillis)
    const now = toDate(yield* clock.now)
    const staged = yield* sql`
      UPDATE organization_moves
      SET
        state = ${isCopy(header) ? "copied" : "staged"}, changed_at = ${now}, row_count = ${rows}, receipt = ${end.receipt},
        release_code = ${isCopy(header) ? null : header.release},
        activation_code = ${"activation" in end ? end.activation : null},
        copy_id = ${isCopy(header) ? header.move_id : since}
      WHERE org_id = ${org_id}
        AND move_id = ${header.move_id}
        AND state = 'importing'
      RETURNING org_id
    `
    // Without its row in this state nothing would fence the imported copy.
    if (staged.length === 0) return yield* moveEnded
    const imported: ImportedOrganization = { ...result, receipt: end.receipt, isRepeated: false, rows }
    return imported
  })
  // Not retried: the lines can be read only once.
  return yield* atomicWithoutRetry(sql)(
    withoutTimeouts(Effect.catchIf(importAll, isLostRace, (cause) => Effect.fail(new LostRace({ cause }))))
  ).pipe(
    Effect.catchTag("LostRace", ({ cause }) =>
      Effect.flatMap(
        Effect.orDie(sql`
          SELECT 1 AS found
          FROM organization_moves
          WHERE org_id = ${org_id}
            AND move_id = ${header.move_id}
            AND state = 'importing'
        `),
        (current) => (current.length === 0 ? Effect.fail(moveEnded) : Effect.die(cause))
      )
    )
  )
})
