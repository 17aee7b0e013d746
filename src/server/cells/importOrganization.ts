import { Effect, Option, Result, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { shardOf } from "../delivery/Delivery/virtualShards.ts"
import { MOVE_POLL_MILLIS } from "../identity/OrganizationMoves.ts"
import { latestMigration } from "../store/Database/schemaVersion.ts"
import { int4Array, textArray } from "../store/pgArrays.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomicWithoutRetry, transaction } from "../store/transaction.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { installFence, moveEnded, passFence } from "./fence.ts"
import { FileEnd, FileHeader, TableStart } from "./Manifest.ts"
import { listMovedTables, type MovedTable, quoted } from "./movedTables.ts"
import { findMoveById, MoveRefused } from "./moveState.ts"
import { decodeRow, type MovedRow, readTable, sealRow } from "./readTable.ts"
import { readReports, silentReplicas } from "./replicaReports.ts"
import { makeRowsDigest } from "./rowsDigest.ts"
import { tryFile } from "./transfer/transferFile.ts"

/** Rows and characters of one INSERT. */
const BATCH_ROWS = 1_000
const BATCH_CHARACTERS = 2 ** 20

/** Replicas hold the organization's deliveries after at most this time. */
const NOTICE_MILLIS = 2 * MOVE_POLL_MILLIS + 500

/** How long the import waits for replicas that do not report. */
const MAX_NOTICE_MILLIS = 30_000

/** Waits until all replicas hold the organization's deliveries. Refused if some of them do not. */
const waitForReplicas = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  header: FileHeader,
  maxMillis: number
) {
  yield* Effect.sleep(NOTICE_MILLIS)
  for (let waited = NOTICE_MILLIS; ; waited += MOVE_POLL_MILLIS) {
    const { silent } = yield* readReports(sql, header)
    if (silent === 0) return
    if (waited >= maxMillis) return yield* silentReplicas(silent)
    yield* Effect.sleep(MOVE_POLL_MILLIS)
  }
})

const refuse = (message: string) => new MoveRefused({ message })
const malformed = refuse("The file's content is not that of an export. Nothing was imported.")

const decodeHeader = Schema.decodeUnknownEffect(Schema.fromJsonString(FileHeader))
const decodeEnd = Schema.decodeUnknownEffect(Schema.fromJsonString(FileEnd))
const decodeStart = Schema.decodeUnknownOption(Schema.fromJsonString(TableStart))

/** Fails unless the file has exactly the tables and columns of this database. */
const checkHeader = Effect.fnUntraced(function* (header: FileHeader, tables: ReadonlyArray<MovedTable>) {
  if (header.schema !== latestMigration) {
    return yield* refuse(
      `The file has schema version ${header.schema}, and this installation ${latestMigration}. Upgrade the older one, then export again.`
    )
  }
  const own = tables.map(({ columns, name }) => [name, ...columns.map((column) => column.name)].join())
  const given = header.tables.map(({ columns, name }) => [name, ...columns].join())
  if (own.join(";") !== given.join(";")) {
    return yield* refuse("The tables of the file differ from those of this installation.")
  }
})

/** Registers the import, unless the organization is here already. Returns the receipt of an import that is done. */
const begin = (sql: SqlClient.SqlClient, header: FileHeader) =>
  transaction(
    Effect.gen(function* () {
      const { move_id, name, org_id } = header
      const now = toDate(yield* (yield* StoreClock).now)
      const before = yield* findMoveById(sql, org_id)
      if (before?.move_id === move_id && (before.state === "staged" || before.state === "arrived")) {
        return Option.fromNullOr(before.receipt)
      }
      // Once the abort is over, the same file can be imported again: its release code shows whether it may be activated. After a commit it
      // is the only way on.
      if (before?.state === "discarded" && before.is_fenced) {
        return yield* refuse(
          `An abort of an earlier import of ${name} is not finished. Run countersign org abort, then import this file again.`
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
      const taken =
        yield* sql`SELECT 1 AS found FROM organizations WHERE org_id = ${org_id} OR name = ${name}`
      if (taken.length > 0)
        return yield* refuse(`This installation has an organization named ${name} already.`)
      yield* sql`
        INSERT INTO organization_moves (org_id, move_id, name, state, is_fenced, started_at, changed_at)
        VALUES (${org_id}, ${move_id}, ${name}, 'importing', true, ${now}, ${now})
        ON CONFLICT (org_id) DO UPDATE
        SET
          move_id = excluded.move_id, name = excluded.name, state = excluded.state, is_fenced = true,
          started_at = excluded.started_at, changed_at = excluded.changed_at,
          moved_to = NULL, row_count = NULL, receipt = NULL, release_code = NULL, activation_code = NULL
      `
      // Reports of an earlier attempt.
      yield* sql`DELETE FROM organization_move_replicas WHERE org_id = ${org_id}`
      return Option.none<string>()
    })
  ).pipe(Effect.provideService(SqlClient.SqlClient, sql))

/** Inserts rows. Every value is a parameter, read by the input function of its column's type. */
const insertRows = (sql: SqlClient.SqlClient, table: MovedTable, rows: ReadonlyArray<MovedRow>) => {
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
      `ORDER BY position`,
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

/** The result of an import. */
export interface ImportedOrganization {
  readonly org_id: OrgId
  readonly name: string
  readonly receipt: string
  /** Whether an earlier run imported the file. */
  readonly isRepeated: boolean
  readonly rows: number
}

/**
 * Imports the lines of a file in one transaction: all rows or none. Then it reads them back and compares their digests with those of the
 * file. The organization is not active: it is fenced until it is activated.
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
  const tables = yield* listMovedTables(sql)
  yield* checkHeader(header, tables)
  const done = yield* begin(sql, header)
  if (Option.isSome(done)) {
    const result: ImportedOrganization = { org_id, name, receipt: done.value, isRepeated: true, rows: 0 }
    return result
  }
  yield* installFence(sql, header)
  yield* waitForReplicas(sql, header, maxNoticeMillis)

  /** Reads the rows of one table, and returns the line that follows them. */
  const insertTable = Effect.fnUntraced(function* (table: MovedTable, count: (rows: number) => void) {
    const orgColumn = table.columns.findIndex((column) => column.name === "org_id")
    const hasSecrets = table.columns.some(({ sealed }) => sealed !== undefined)
    let batch: Array<MovedRow> = []
    let characters = 0
    const flush = Effect.suspend(() => {
      const rows = batch
      batch = []
      characters = 0
      count(rows.length)
      return rows.length === 0
        ? Effect.void
        : Effect.mapError(insertRows(sql, table, rows), explainConstraint(table.name))
    })
    for (;;) {
      const line = yield* next
      if (!line.startsWith("[")) {
        yield* flush
        return line
      }
      const decoded = Result.try(() => decodeRow(line))
      if (Result.isFailure(decoded)) return yield* malformed
      const row = decoded.success
      if (row.length !== table.columns.length || row[orgColumn] !== org_id) return yield* malformed
      batch.push(hasSecrets ? yield* sealRow(table, org_id, row) : row)
      characters += line.length
      if (batch.length >= BATCH_ROWS || characters >= BATCH_CHARACTERS) yield* flush
    }
  })

  const importAll = Effect.gen(function* () {
    yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
    yield* passFence(sql)
    let rows = 0
    const count = (added: number) => {
      rows += added
      onProgress(rows)
    }
    let line = yield* next
    for (const table of tables) {
      const start = decodeStart(line)
      if (Option.isNone(start) || start.value.table !== table.name) return yield* malformed
      line = yield* insertTable(table, count)
    }
    const end = yield* Effect.mapError(decodeEnd(line), () => malformed)
    // The file ends here: its last chunk is authentic.
    const rest = yield* tryFile(() => iterator.next())
    if (rest.done !== true) return yield* malformed
    for (const table of tables) {
      const digest = makeRowsDigest()
      yield* readTable(sql, table, org_id, (found) => Effect.sync(() => found.forEach(digest.add)))
      const [stored, given] = [digest.result(), end.tables[table.name]]
      if (stored.rows !== given?.rows || stored.digest !== given.digest) {
        return yield* refuse(`The rows of ${table.name} differ from those of the file. Nothing was imported.`)
      }
    }
    const named = yield* sql`SELECT 1 AS found FROM organizations WHERE org_id = ${org_id} AND name = ${name}`
    if (named.length === 0) return yield* malformed
    const now = toDate(yield* clock.now)
    const staged = yield* sql`
      UPDATE organization_moves
      SET
        state = 'staged', changed_at = ${now}, row_count = ${rows}, receipt = ${end.receipt},
        release_code = ${header.release}, activation_code = ${end.activation}
      WHERE org_id = ${org_id}
        AND move_id = ${header.move_id}
        AND state = 'importing'
      RETURNING org_id
    `
    // Without its row in this state nothing would fence the imported copy.
    if (staged.length === 0) return yield* moveEnded
    const result: ImportedOrganization = { org_id, name, receipt: end.receipt, isRepeated: false, rows }
    return result
  })
  // Not retried: the lines can be read only once.
  return yield* atomicWithoutRetry(sql)(withoutTimeouts(importAll))
})
