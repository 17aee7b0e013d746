import { Effect, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { transaction } from "../store/transaction.ts"
import { listMovedTables, type MovedTable, quoted } from "./movedTables.ts"
import { MoveRefused } from "./moveState.ts"

/** How long one statement waits for the lock of a table, in milliseconds. Writers of other organizations wait behind it, so it is short. */
const LOCK_MILLIS = 100

/** Pause before the lock is tried again. */
const RETRY = Schedule.spaced("250 millis")

/** Tries for the lock of one table: about two minutes. Meanwhile the organization is frozen, so the operator learns the reason. */
const MAX_TRIES = 300

/**
 * PostgreSQL cancels an autovacuum for a statement that has waited for its lock for `deadlock_timeout`, one second by default. So each tenth
 * try waits longer than that, if an autovacuum has the lock.
 */
const CANCEL_EVERY = 10
const CANCEL_MILLIS = 500
const MAX_CANCEL_MILLIS = 5_000

/**
 * Tables in which the fence skips the organization's new rows. In all others it refuses them, see the function `organization_move_fence`
 * in the migrations.
 */
export const skippingTables: ReadonlySet<string> = new Set([
  "api_key_uses",
  "deliveries",
  "delivery_attempts",
  "delivery_counts",
  "delivery_destinations",
  "delivery_queue",
  "erased_traces",
  "organization_usage",
  "search_documents",
  "search_progress",
  "secret_changes",
  "telemetry_batches"
])

/**
 * Tables that refuse rows first: a request that runs longer than the export waits must not store an approval while its notification is
 * skipped. When the tables that skip are fenced, each such request has ended or will be refused as a whole.
 */
const inFenceOrder = (tables: ReadonlyArray<MovedTable>): ReadonlyArray<MovedTable> => [
  ...tables.filter(({ name }) => !skippingTables.has(name)),
  ...tables.filter(({ name }) => skippingTables.has(name))
]

const triggerOf = (org_id: OrgId, kind: "insert" | "change"): string => quoted(`moving_${org_id}_${kind}`)

/** Selects the granted locks of a table and its partitions. */
const grantedLocks = (sql: SqlClient.SqlClient, table: string) => sql`
  SELECT pid, mode
  FROM pg_locks
  WHERE locktype = 'relation'
    AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND relation IN (
      SELECT ${quoted(table)}::regclass::oid
      UNION ALL
      SELECT relid::oid FROM pg_partition_tree(${quoted(table)}::regclass)
    )
`

/**
 * Sets the lock timeout of the transaction. `canCancel`: long enough that an autovacuum which has the lock is canceled. An autovacuum has no
 * user; the column that names the kind of a process is hidden from ordinary roles.
 */
const setLockTimeout = (sql: SqlClient.SqlClient, table: string, canCancel: boolean) =>
  canCancel
    ? sql`
        SELECT set_config(
          'lock_timeout',
          (
            CASE
              WHEN EXISTS (
                SELECT
                FROM (${grantedLocks(sql, table)}) AS locks
                  JOIN pg_stat_activity USING (pid)
                WHERE mode = 'ShareUpdateExclusiveLock'
                  AND usesysid IS NULL
              )
              THEN least(
                (SELECT setting::int FROM pg_settings WHERE name = 'deadlock_timeout') + ${CANCEL_MILLIS}::int,
                ${MAX_CANCEL_MILLIS}::int
              )
              ELSE ${LOCK_MILLIS}::int
            END
          )::text || 'ms',
          true
        )
      `
    : sql`SELECT set_config('lock_timeout', ${`${LOCK_MILLIS}ms`}, true)`

const isLockTimeout = (error: unknown): boolean =>
  SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

/** The refusal of a table that could not be locked. Names the processes whose locks conflict: for a trigger to drop, also those of readers. */
const tableInUse = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, table: string, drops: boolean) {
  const users = yield* sql<{ readonly pid: number }>`
    SELECT DISTINCT pid
    FROM (${grantedLocks(sql, table)}) AS locks
    WHERE ${drops}::boolean
      OR mode NOT IN ('AccessShareLock', 'RowShareLock')
    ORDER BY pid
  `
  const pids = users.map(({ pid }) => pid)
  const by = pids.length === 0 ? "" : `, because of these processes of pg_stat_activity: ${pids.join(", ")}`
  return yield* new MoveRefused({
    message: `The table ${table} could not be locked for two minutes${by}. Wait for them or end them, then run this command again.`
  })
})

/**
 * Runs a change of triggers as soon as it gets the table's lock within the timeout. `check` runs in the same transaction, before it. Refused
 * after `maxTries`.
 */
const withShortLock = <E>(
  sql: SqlClient.SqlClient,
  {
    check,
    drops,
    maxTries,
    statements,
    table
  }: {
    readonly table: string
    readonly check: Effect.Effect<void, E>
    readonly statements: ReadonlyArray<string>
    readonly drops: boolean
    readonly maxTries: number
  }
) => {
  let tries = 0
  return transaction(
    Effect.gen(function* () {
      yield* setLockTimeout(sql, table, ++tries % CANCEL_EVERY === 0)
      yield* check
      for (const statement of statements) yield* sql.unsafe(statement)
    })
  ).pipe(
    Effect.retry({ while: isLockTimeout, schedule: RETRY, times: maxTries - 1 }),
    Effect.catchIf(isLockTimeout, () => tableInUse(sql, table, drops)),
    Effect.provideService(SqlClient.SqlClient, sql)
  )
}

/**
 * Creates triggers that refuse every write of the organization's rows, table by table, while the row of its move is fenced. `CREATE TRIGGER`
 * waits for the transactions that have written to the table, and every later write sees the trigger: when this is done, no row of the
 * organization changes any more. Can be repeated. Refused once another command ended this move or began another one, and if a table
 * cannot be locked in `maxTries`. `keepsExisting` skips tables that have both triggers: only if the organization has been fenced ever since
 * they were created, else transactions from before this fence may still commit.
 */
export const installFence = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { move_id, org_id }: { readonly move_id: string; readonly org_id: OrgId },
  {
    keepsExisting = false,
    maxTries = MAX_TRIES
  }: { readonly keepsExisting?: boolean; readonly maxTries?: number } = {}
) {
  // The row is locked, so that no abort ends the move before the triggers are there, to be dropped by it.
  const check = Effect.flatMap(
    sql`SELECT 1 FROM organization_moves WHERE org_id = ${org_id} AND move_id = ${move_id} AND is_fenced FOR SHARE`,
    (rows) => (rows.length === 0 ? Effect.fail(moveEnded) : Effect.void)
  )
  const existing = yield* sql<{ readonly name: string }>`
    SELECT c.relname::text AS name
    FROM pg_trigger t
      JOIN pg_class c ON c.oid = t.tgrelid
    WHERE t.tgname IN (${`moving_${org_id}_insert`}, ${`moving_${org_id}_change`})
      AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'organizations'::regclass)
    GROUP BY c.relname
    HAVING count(*) = 2
  `
  const kept = new Set(keepsExisting ? existing.map(({ name }) => name) : [])
  for (const { name } of inFenceOrder(yield* listMovedTables(sql))) {
    if (kept.has(name)) continue
    const on = `ON ${quoted(name)} FOR EACH ROW`
    const run = "EXECUTE FUNCTION organization_move_fence()"
    yield* withShortLock(sql, {
      table: name,
      check,
      statements: [
        `CREATE OR REPLACE TRIGGER ${triggerOf(org_id, "insert")} BEFORE INSERT ${on} WHEN (NEW.org_id = '${org_id}') ${run}`,
        `CREATE OR REPLACE TRIGGER ${triggerOf(org_id, "change")} BEFORE UPDATE OR DELETE ${on} WHEN (OLD.org_id = '${org_id}') ${run}`
      ],
      drops: false,
      maxTries
    })
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
    yield* withShortLock(sql, {
      table: name,
      check,
      statements: (["insert", "change"] as const).map(
        (kind) => `DROP TRIGGER IF EXISTS ${triggerOf(org_id, kind)} ON ${quoted(name)}`
      ),
      drops: true,
      maxTries: MAX_TRIES
    })
  }
})

/** Lets the current transaction write rows of fenced organizations, without the triggers that would add to imported rows. */
export const bypassFence = (sql: SqlClient.SqlClient) => sql`
  SELECT
    set_config('countersign.moving', 'on', true),
    set_config('countersign.importing', 'on', true),
    set_config('countersign.audit_retention', 'on', true),
    set_config('countersign.keeps_feedback_counts', 'on', true)
`
