import { Effect, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { transaction } from "../store/transaction.ts"
import { listMovedTables, quoted } from "./movedTables.ts"
import { MoveRefused } from "./moveState.ts"

/** How long one statement waits for the lock of a table. Writers of other organizations wait behind it, so it is short. */
const LOCK_TIMEOUT = "100ms"

/** Pause before the lock is tried again. */
const RETRY = Schedule.spaced("250 millis")

const triggerOf = (org_id: OrgId, kind: "insert" | "change"): string => quoted(`moving_${org_id}_${kind}`)

/**
 * Runs a change of triggers as soon as it gets the table's lock within the time-out. `check` runs in the same transaction, before it.
 */
const withShortLock = <E>(
  sql: SqlClient.SqlClient,
  check: Effect.Effect<void, E>,
  statements: ReadonlyArray<string>
) =>
  transaction(
    Effect.andThen(
      sql.unsafe(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`),
      Effect.andThen(
        check,
        Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })
      )
    )
  ).pipe(
    Effect.retry({
      while: (error) => SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError",
      schedule: RETRY
    }),
    Effect.provideService(SqlClient.SqlClient, sql)
  )

/**
 * Creates triggers that refuse every write of the organization's rows, table by table, while the row of its move is fenced. `CREATE TRIGGER`
 * waits for the transactions that have written to the table, and every later write sees the trigger: when this is done, no row of the
 * organization changes any more. Can be repeated. Refused once another command ended this move or began another one.
 */
export const installFence = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { move_id, org_id }: { readonly move_id: string; readonly org_id: OrgId }
) {
  // The row is locked, so that no abort ends the move before the triggers are there, to be dropped by it.
  const check = Effect.flatMap(
    sql`SELECT 1 FROM organization_moves WHERE org_id = ${org_id} AND move_id = ${move_id} AND is_fenced FOR SHARE`,
    (rows) => (rows.length === 0 ? Effect.fail(moveEnded) : Effect.void)
  )
  for (const { name } of yield* listMovedTables(sql)) {
    const on = `ON ${quoted(name)} FOR EACH ROW`
    const run = "EXECUTE FUNCTION organization_move_fence()"
    yield* withShortLock(sql, check, [
      `CREATE OR REPLACE TRIGGER ${triggerOf(org_id, "insert")} BEFORE INSERT ${on} WHEN (NEW.org_id = '${org_id}') ${run}`,
      `CREATE OR REPLACE TRIGGER ${triggerOf(org_id, "change")} BEFORE UPDATE OR DELETE ${on} WHEN (OLD.org_id = '${org_id}') ${run}`
    ])
  }
})

/** The reason why a command cannot go on with its move. */
export const moveEnded = new MoveRefused({
  message:
    "Another command aborted this move or began another one meanwhile. Start again with countersign org export."
})

/** Drops the triggers of the organization, after its move has ended. Can be repeated. Stops if another move has begun. */
export const removeFence = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  // The row is locked, so that no other move begins before the triggers of this one are dropped.
  const check = Effect.flatMap(
    sql<{
      readonly is_fenced: boolean
    }>`SELECT is_fenced FROM organization_moves WHERE org_id = ${org_id} FOR SHARE`,
    (rows) => (rows[0]?.is_fenced === true ? Effect.fail(moveEnded) : Effect.void)
  )
  for (const { name } of yield* listMovedTables(sql)) {
    const found = yield* sql`
      SELECT 1 AS found
      FROM pg_trigger
      WHERE tgrelid = ${quoted(name)}::regclass
        AND tgname IN (${`moving_${org_id}_insert`}, ${`moving_${org_id}_change`})
    `
    if (found.length === 0) continue
    yield* withShortLock(
      sql,
      check,
      (["insert", "change"] as const).map(
        (kind) => `DROP TRIGGER IF EXISTS ${triggerOf(org_id, kind)} ON ${quoted(name)}`
      )
    )
  }
})

/** Lets the current transaction write rows of fenced organizations, without the triggers that would add to imported rows. */
export const passFence = (sql: SqlClient.SqlClient) => sql`
  SELECT
    set_config('countersign.moving', 'on', true),
    set_config('countersign.importing', 'on', true),
    set_config('countersign.audit_retention', 'on', true),
    set_config('countersign.keeps_feedback_counts', 'on', true)
`
