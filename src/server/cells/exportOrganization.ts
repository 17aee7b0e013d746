import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { MOVE_POLL_MILLIS } from "../identity/OrganizationMoves.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomicWithoutRetry, transaction } from "../store/transaction.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { latestMigration, requireSameSchema } from "../store/Database/schemaVersion.ts"
import { installFence, moveEnded } from "./fence.ts"
import type { FileEnd, FileHeader } from "./Manifest.ts"
import { readChanges } from "./changedRows.ts"
import { listMovedTables } from "./movedTables.ts"
import {
  codeDigest,
  findCopy,
  findMoveById,
  lockCopies,
  makeCode,
  MoveRefused,
  type MoveRow
} from "./moveState.ts"
import { readTable } from "./readTable.ts"
import { readReports, silentReplicas } from "./replicaReports.ts"
import { makeRowsDigest, type RowsDigest } from "./rowsDigest.ts"
import { type LineWriter, tryFile } from "./transfer/transferFile.ts"

const refuse = (message: string) => new MoveRefused({ message })

/** In this time replicas store the spans that they have in memory. */
const SPANS_MILLIS = 4_000

/**
 * How long the export waits until replicas have stopped to write, at least: two polls, and the time in which spans in memory are stored.
 */
const MIN_DRAIN_MILLIS = 2 * MOVE_POLL_MILLIS + SPANS_MILLIS

/** How long it waits for requests and deliveries in progress, at most. Then the fence refuses their writes. */
const MAX_DRAIN_MILLIS = 60_000

/** Waits until all replicas report, and twice in a row that nothing is in flight. Refused if some of them do not report. */
const drain = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  move: { readonly move_id: string; readonly org_id: OrgId },
  maxMillis: number
) {
  yield* Effect.sleep(Math.min(MIN_DRAIN_MILLIS, maxMillis))
  let idle = 0
  for (let waited = MIN_DRAIN_MILLIS; ; waited += MOVE_POLL_MILLIS) {
    const { in_flight, silent } = yield* readReports(sql, move)
    idle = in_flight === 0 && silent === 0 ? idle + 1 : 0
    if (idle === 2) return
    if (waited >= maxMillis) return silent === 0 ? undefined : yield* silentReplicas(silent)
    yield* Effect.sleep(MOVE_POLL_MILLIS)
  }
})

/**
 * The codes of the export of an organization that has moved, to write the same file again: its rows have not changed. For another transfer key, a
 * third installation could activate it, with the release code that the commit has printed.
 */
const codesAgain = Effect.fnUntraced(function* (
  name: string,
  before: MoveRow,
  { sinceCopy, transferKey }: ExportOptions
) {
  const { export_activation, export_receipt, move_id, moved_to, release_code, transfer_key } = before
  const hasMoved = `${name} has moved${moved_to === null ? "" : ` to ${moved_to}`}.`
  if (
    export_activation === null ||
    export_receipt === null ||
    release_code === null ||
    transfer_key === null
  ) {
    return yield* refuse(`${hasMoved} Delete its copy here with countersign org finish.`)
  }
  if (transfer_key !== transferKey) {
    return yield* refuse(
      `${hasMoved} Its export is written again only for the transfer key that it was made for: --for ${transfer_key}`
    )
  }
  if (sinceCopy !== undefined) {
    return yield* refuse(`${hasMoved} Its export is written again as a whole: leave out --since-copy.`)
  }
  const codes: Codes = {
    move_id,
    receipt: export_receipt,
    release: release_code,
    activation: export_activation
  }
  return codes
})

/**
 * Freezes the organization, with new codes. If it is frozen already, files of earlier exports can no longer be activated. If it has moved, nothing
 * changes, and the codes are those of its export.
 */
const freeze = (sql: SqlClient.SqlClient, org_id: OrgId, name: string, options: ExportOptions) =>
  transaction(
    Effect.gen(function* () {
      // A copy that ended later would replace the digests that an export after an earlier one compares with.
      yield* lockCopies(sql, { org_id, name })
      const now = toDate(yield* (yield* StoreClock).now)
      const before = yield* findMoveById(sql, org_id)
      if (before?.state === "moved") {
        return { codes: yield* codesAgain(name, before, options), isRepeated: true }
      }
      const move: Codes = {
        move_id: makeCode(),
        receipt: makeCode(),
        release: makeCode(),
        activation: makeCode()
      }
      if (before?.state === "importing" || before?.state === "staged") {
        return yield* refuse(
          `${name} is not active here: its import is not finished. Run countersign org activate or countersign org abort.`
        )
      }
      yield* sql`DELETE FROM organization_moves WHERE org_id = ${org_id}`
      // The installation that it came from may still need them, to delete its copy.
      const [release, activation] =
        before?.state === "arrived"
          ? [before.release_code, before.activation_code]
          : [before?.arrival_release_code ?? null, before?.arrival_activation_code ?? null]
      yield* sql`
        INSERT INTO organization_moves (
          org_id, move_id, name, state, is_fenced, started_at, changed_at, receipt, release_code, activation_code,
          arrival_release_code, arrival_activation_code, transfer_key, export_receipt, export_activation
        )
        VALUES (
          ${org_id}, ${move.move_id}, ${name}, 'frozen', true, ${now}, ${now}, ${codeDigest(move.receipt)},
          ${move.release}, ${codeDigest(move.activation)}, ${release}, ${activation}, ${options.transferKey},
          ${move.receipt}, ${move.activation}
        )
      `
      return { codes: move, isRepeated: false }
    })
  ).pipe(Effect.provideService(SqlClient.SqlClient, sql))

interface Codes {
  readonly move_id: string
  readonly receipt: string
  readonly release: string
  readonly activation: string
}

/** Checks that the copy with this receipt can be completed here. Returns its id. */
const checkCopy = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { name, org_id }: { readonly org_id: OrgId; readonly name: string },
  receipt: string,
  transferKey: string
) {
  const copy = yield* findCopy(sql, org_id)
  if (copy === undefined || codeDigest(receipt) !== copy.receipt) {
    return yield* refuse(
      `The code is not that of the last copy of ${name}. Import the file of countersign org copy in the other installation, and use the ` +
        "code that this prints. Nothing was changed."
    )
  }
  if (copy.schema_version !== latestMigration) {
    return yield* refuse(
      `The copy of ${name} has schema version ${copy.schema_version}, and this installation ${latestMigration}. Copy it again. Nothing was changed.`
    )
  }
  if (copy.transfer_key !== null && copy.transfer_key !== transferKey) {
    return yield* refuse(
      `The copy of ${name} was made for another transfer key. Export it for the same one: --for ${copy.transfer_key}. Nothing was changed.`
    )
  }
  return copy.copy_id
})

/** The digests of the copy's rows were replaced or deleted during the export. */
const copyEnded = (name: string) =>
  refuse(
    `Another command copied ${name} again, or ended its copy, during the export. Run countersign org export without --since-copy, or ` +
      "run countersign org abort in both installations and begin with a new copy."
  )

/** Fails if the digests of the copy's rows were replaced or deleted. Its row is locked until the transaction ends. */
const lockCopyForShare = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { name, org_id }: { readonly org_id: OrgId; readonly name: string },
  move_id: string,
  copy_id: string
) {
  const found =
    yield* sql`SELECT 1 AS found FROM organization_copies WHERE org_id = ${org_id} AND copy_id = ${copy_id} FOR SHARE`
  if (found.length > 0) return
  // An abort ends both.
  const isCurrent =
    yield* sql`SELECT 1 AS found FROM organization_moves WHERE org_id = ${org_id} AND move_id = ${move_id} AND is_fenced`
  return yield* isCurrent.length > 0 ? copyEnded(name) : moveEnded
})

/** Options of an export. */
export interface ExportOptions {
  /** The key that the file is encrypted for. */
  readonly transferKey: string
  /** The receipt of a copy that the other installation has loaded: only what differs from it is exported. */
  readonly sinceCopy?: string
  readonly onProgress?: (rows: number) => void
  /** How long it waits for requests in progress, in milliseconds. */
  readonly maxDrainMillis?: number
}

/** The result of an export. */
export interface ExportedOrganization {
  readonly rows: number
  /** Keys of rows that were deleted or changed since the copy. */
  readonly removed: number
  readonly bytes: number
  /** Whether the organization has moved already, and the file of its export was written again. */
  readonly isRepeated: boolean
  /** How long the organization could not be written, so far, in milliseconds. */
  readonly frozenMillis: number
}

/**
 * Freezes an organization, waits until nothing writes for it, and writes everything it has to a file, or what differs from a copy. It stays frozen: it can be read
 * here, and nothing else. The rows do not change any more, so that they are consistent without a long transaction.
 *
 * Of an organization that has moved, it writes the file of its export again, with the same codes and for the same transfer key: as long as a copy
 * exists only here, an abort in the other installation is no dead end.
 */
export const exportOrganization = Effect.fnUntraced(function* (
  organization: { readonly org_id: OrgId; readonly name: string },
  writer: LineWriter,
  options: ExportOptions
) {
  const { maxDrainMillis = MAX_DRAIN_MILLIS, onProgress, sinceCopy, transferKey } = options
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const { name, org_id } = organization
  const startedAt = yield* clock.now
  const since =
    sinceCopy === undefined ? undefined : yield* checkCopy(sql, organization, sinceCopy, transferKey)
  const { codes, isRepeated } = yield* freeze(sql, org_id, name, options)
  if (!isRepeated) yield* drain(sql, { org_id, move_id: codes.move_id }, maxDrainMillis)
  yield* installFence(sql, { org_id, move_id: codes.move_id }, { keepsExisting: isRepeated })

  const write = (line: string) => tryFile(() => writer.write(line))
  const tables = yield* listMovedTables(sql)
  const header: FileHeader = {
    format: "countersign-organization",
    version: 1,
    schema: latestMigration,
    move_id: codes.move_id,
    org_id,
    name,
    release: codeDigest(codes.release),
    ...(since === undefined ? {} : { since }),
    tables: tables.map((table) => ({ name: table.name, columns: table.columns.map((column) => column.name) }))
  }
  yield* write(JSON.stringify(header))
  const digests: Record<string, RowsDigest> = {}
  let rows = 0
  let removed = 0
  const writeLines = (lines: ReadonlyArray<string>, isRows: boolean) =>
    tryFile(async () => {
      for (const line of lines) await writer.write(line)
      if (isRows) rows += lines.length
      else removed += lines.length
      onProgress?.(rows + removed)
    })
  for (const table of tables) {
    yield* write(JSON.stringify({ table: table.name }))
    // Not retried: the lines are written only once.
    digests[table.name] = yield* atomicWithoutRetry(sql)(
      withoutTimeouts(
        Effect.gen(function* () {
          yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
          // A migration changes rows of frozen organizations too. It waits for this transaction, and ends the export before the next table.
          yield* requireSameSchema
          if (since !== undefined && table.isCopied) {
            yield* lockCopyForShare(sql, organization, codes.move_id, since)
            return yield* readChanges(sql, table, org_id, {
              removed: (keys) =>
                writeLines(
                  keys.map((key) => `{"removed":${key}}`),
                  false
                ),
              rows: (lines) => writeLines(lines, true)
            })
          }
          const digest = makeRowsDigest()
          yield* readTable(sql, table, org_id, (lines) => {
            lines.forEach(digest.add)
            return writeLines(lines, true)
          })
          return digest.result()
        })
      )
    )
  }
  // Once it is finished, rows may be missing: a file without its end is not imported.
  const isWhole = yield* sql`
    SELECT 1 AS found
    FROM organization_moves
    WHERE org_id = ${org_id}
      AND move_id = ${codes.move_id}
      AND is_fenced
      AND export_receipt IS NOT NULL
  `
  if (isWhole.length === 0) return yield* moveEnded
  const end: FileEnd = { end: true, tables: digests, receipt: codes.receipt, activation: codes.activation }
  yield* write(JSON.stringify(end))
  yield* tryFile(() => writer.end())
  const current = yield* sql`
    UPDATE organization_moves
    SET row_count = ${rows}, changed_at = ${toDate(yield* clock.now)}
    WHERE org_id = ${org_id}
      AND move_id = ${codes.move_id}
      AND is_fenced
    RETURNING org_id
  `
  if (current.length === 0) return yield* moveEnded
  const result: ExportedOrganization = {
    rows,
    removed,
    bytes: writer.bytes(),
    isRepeated,
    frozenMillis: (yield* clock.now).epochMilliseconds - startedAt.epochMilliseconds
  }
  return result
})
