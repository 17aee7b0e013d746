import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomicWithoutRetry } from "../store/transaction.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { latestMigration, requireSameSchema } from "../store/Database/schemaVersion.ts"
import { storeCopiedRows } from "./changedRows.ts"
import type { CopyEnd, CopyHeader } from "./Manifest.ts"
import { listMovedTables } from "./movedTables.ts"
import { codeDigest, lockCopies, makeCode, MoveRefused } from "./moveState.ts"
import { readTable } from "./readTable.ts"
import type { RowsDigest } from "./rowsDigest.ts"
import { type LineWriter, tryFile } from "./transfer/transferFile.ts"

/**
 * Writes most of what an organization has to a file while it works, from one snapshot of the database, and keeps a digest of each row. The
 * export after the copy has only the rows that differ. Replaces an earlier copy when it is complete; without effect until then.
 */
export const copyOrganization = Effect.fnUntraced(function* (
  organization: { readonly org_id: OrgId; readonly name: string },
  writer: LineWriter,
  transferKey: string,
  onProgress: (rows: number) => void = () => undefined
) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const { name, org_id } = organization
  const copy_id = makeCode()
  const receipt = makeCode()
  const now = toDate(yield* clock.now)
  const write = (line: string) => tryFile(() => writer.write(line))

  const copyAll = Effect.gen(function* () {
    yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
    yield* lockCopies(sql, organization)
    // Migrations wait for this transaction, which has read their table.
    yield* requireSameSchema
    const [moving] = yield* sql<{ readonly state: string }>`
      SELECT state
      FROM organization_moves
      WHERE org_id = ${org_id}
        AND is_fenced
    `
    if (moving !== undefined) {
      return yield* new MoveRefused({
        message:
          moving.state === "frozen"
            ? `${name} is frozen already. Continue with countersign org export, or end the move with countersign org abort.`
            : moving.state === "moved"
              ? `${name} has moved. Delete its copy here with countersign org finish, or export it again if it is active nowhere.`
              : `${name} is not active here: its import is not finished. Run countersign org activate or countersign org abort.`
      })
    }
    const tables = (yield* listMovedTables(sql)).filter(({ isCopied }) => isCopied)
    const header: CopyHeader = {
      format: "countersign-organization-copy",
      version: 1,
      schema: latestMigration,
      move_id: copy_id,
      org_id,
      name,
      tables: tables.map((table) => ({
        name: table.name,
        columns: table.columns.map((column) => column.name)
      }))
    }
    yield* write(JSON.stringify(header))
    yield* sql`DELETE FROM organization_copy_rows WHERE org_id = ${org_id}`
    const digests: Record<string, RowsDigest> = {}
    let rows = 0
    for (const table of tables) {
      yield* write(JSON.stringify({ table: table.name }))
      yield* readTable(sql, table, org_id, (lines) =>
        tryFile(async () => {
          for (const line of lines) await writer.write(line)
          onProgress((rows += lines.length))
        })
      )
      digests[table.name] = yield* storeCopiedRows(sql, table, org_id)
    }
    const end: CopyEnd = { end: true, tables: digests, receipt }
    yield* write(JSON.stringify(end))
    yield* tryFile(() => writer.end())
    yield* sql`
      INSERT INTO organization_copies (org_id, copy_id, name, created_at, schema_version, row_count, receipt, transfer_key)
      VALUES (
        ${org_id}, ${copy_id}, ${name}, ${now}, ${latestMigration}, ${rows}, ${codeDigest(receipt)}, ${transferKey}
      )
      ON CONFLICT (org_id) DO UPDATE
      SET
        copy_id = excluded.copy_id, name = excluded.name, created_at = excluded.created_at,
        schema_version = excluded.schema_version, row_count = excluded.row_count, receipt = excluded.receipt,
        transfer_key = excluded.transfer_key
    `
    return { rows, bytes: writer.bytes() }
  })
  // Not retried: the lines are written only once.
  return yield* atomicWithoutRetry(sql)(
    Effect.andThen(
      // One snapshot for all tables.
      sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`,
      withoutTimeouts(copyAll)
    )
  )
})
