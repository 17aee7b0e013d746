import { Effect, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction } from "../../src/server/store/transaction.ts"

/** Table locks that block writers, the strongest first. Weaker ones let the service go on. */
const BLOCKS_WRITERS = ["AccessExclusiveLock", "ExclusiveLock", "ShareRowExclusiveLock", "ShareLock"]

/** What a migration does to tables that exist before it. */
export interface MigrationImpact {
  /** Work that grows with a table while its writers, or the writers of its rows, wait. */
  readonly blocking: ReadonlyArray<string>
  /** Changes with which the previous release's statements fail: its replicas run beside the migrated database. */
  readonly incompatible: ReadonlyArray<string>
}

interface TableState {
  readonly name: string
  /** The file of the rows: it changes when the table is rewritten. */
  readonly file: string
}

interface ColumnState {
  readonly table: string
  readonly name: string
  readonly type: string
  readonly isRequired: boolean
}

interface TableRule {
  readonly table: string
  readonly text: string
  /** Ids of the columns of a check or a foreign key; none for other rules. */
  readonly columns: ReadonlyArray<string>
}

interface SchemaState {
  readonly tables: ReadonlyMap<string, TableState>
  /** How often the session has scanned a table or an index, by its id, with the table. */
  readonly scans: ReadonlyMap<string, { readonly table: string; readonly scans: number }>
  /** By table and number, which a renamed column keeps. */
  readonly columns: ReadonlyMap<string, ColumnState>
  /** Constraints and unique indexes by id, as sentences. */
  readonly rules: ReadonlyMap<string, TableRule>
}

/** The schema, and what the open transaction has read. */
const readState = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<TableState & { readonly id: string }>`
    SELECT c.oid::text AS id, c.relname::text AS name, c.relfilenode::text AS file
    FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_migrations'
  `
  const scans = yield* sql<{ readonly id: string; readonly table: string; readonly scans: number }>`
    SELECT
      c.oid::text AS id, coalesce(i.indrelid, c.oid)::text AS table,
      coalesce(pg_stat_get_xact_numscans(c.oid), 0)::int AS scans
    FROM pg_class c
    LEFT JOIN pg_index i ON i.indexrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'i', 'I')
  `
  const columns = yield* sql<ColumnState & { readonly id: string }>`
    SELECT
      a.attrelid::text || '.' || a.attnum AS id, a.attrelid::text AS table, a.attname::text AS name,
      format_type(a.atttypid, a.atttypmod) AS type,
      a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS "isRequired"
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
  `
  const rules = yield* sql<TableRule & { readonly id: string }>`
    SELECT
      oid::text AS id, conrelid::text AS table, 'constraint ' || conname AS text,
      CASE WHEN contype IN ('c', 'f') THEN array(SELECT conrelid::text || '.' || number FROM unnest(conkey) AS number) ELSE '{}' END
        AS columns
    FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND contype IN ('c', 'f', 'x', 'u', 'p')
    UNION ALL
    SELECT indexrelid::text, indrelid::text, 'unique index ' || indexrelid::regclass, '{}'
    FROM pg_index
    WHERE indisunique AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
  `
  return {
    tables: new Map(tables.map((table) => [table.id, table])),
    scans: new Map(scans.map((scan) => [scan.id, scan])),
    columns: new Map(columns.map((column) => [column.id, column])),
    rules: new Map(rules.map((rule) => [rule.id, rule]))
  } satisfies SchemaState
})

/** The locks that the transaction holds, by table. */
const readLocks = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly id: string; readonly mode: string }>`
    SELECT relation::text AS id, mode
    FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
  `
  return new Map(
    [...Map.groupBy(rows, ({ id }) => id)].map(([id, locks]) => [id, locks.map(({ mode }) => mode)])
  )
})

const blockingWork = (
  before: SchemaState,
  after: SchemaState,
  locks: ReadonlyMap<string, ReadonlyArray<string>>
): ReadonlyArray<string> => {
  const scanned = new Set(
    [...before.scans].flatMap(([id, { scans, table }]) =>
      (after.scans.get(id)?.scans ?? 0) > scans ? [table] : []
    )
  )
  return [...before.tables].flatMap(([id, table]) => {
    const now = after.tables.get(id)
    if (now === undefined) return []
    const modes = locks.get(id) ?? []
    const lock = BLOCKS_WRITERS.find((mode) => modes.includes(mode))
    if (now.file !== table.file) return [`${table.name} is rewritten under ${lock ?? "a lock"}`]
    if (!scanned.has(id)) return []
    if (lock !== undefined) return [`${table.name} is read under ${lock}`]
    return modes.includes("RowExclusiveLock")
      ? [`rows of ${table.name} are changed and stay locked until the migration ends`]
      : []
  })
}

const incompatibleChanges = (before: SchemaState, after: SchemaState): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (const [id, table] of before.tables) {
    const now = after.tables.get(id)
    if (now === undefined) found.push(`${table.name} is dropped`)
    else if (now.name !== table.name) found.push(`${table.name} is renamed`)
  }
  const nameOf = (column: ColumnState) => `${before.tables.get(column.table)?.name}.${column.name}`
  for (const [id, column] of before.columns) {
    if (!after.tables.has(column.table)) continue
    const now = after.columns.get(id)
    if (now === undefined) found.push(`${nameOf(column)} is dropped`)
    else if (now.name !== column.name) found.push(`${nameOf(column)} is renamed`)
    else if (now.type !== column.type) found.push(`${nameOf(column)} gets the type ${now.type}`)
    else if (now.isRequired && !column.isRequired) found.push(`${nameOf(column)} becomes required`)
  }
  for (const [id, column] of after.columns) {
    if (!before.columns.has(id) && before.tables.has(column.table) && column.isRequired)
      found.push(`${nameOf(column)} is required`)
  }
  for (const [id, { columns, table, text }] of after.rules) {
    const name = before.tables.get(table)?.name
    // The previous release does not write the new columns, and their defaults satisfy the rule.
    const isOfNewColumns = columns.length > 0 && columns.every((column) => !before.columns.has(column))
    if (name !== undefined && !before.rules.has(id) && !isOfNewColumns) found.push(`${name} gets the ${text}`)
  }
  return found
}

/** Ends the transaction of {@link impactOf} without its changes. */
class Undo extends Error {
  readonly impact: MigrationImpact

  constructor(impact: MigrationImpact) {
    super("undo")
    this.impact = impact
  }
}

/**
 * Runs a migration, and reports what PostgreSQL did to the tables that existed: from its catalogs, its counters of scans and the locks at
 * the end of the transaction, so that it holds for every kind of statement. The number of rows does not matter. Keeps no change.
 */
export const impactOf = <E, R>(
  migration: Effect.Effect<unknown, E, R>
): Effect.Effect<MigrationImpact, E | SqlError.SqlError, R | SqlClient.SqlClient> =>
  transaction(
    Effect.gen(function* () {
      const before = yield* readState
      yield* migration
      const after = yield* readState
      return yield* Effect.fail(
        new Undo({
          blocking: blockingWork(before, after, yield* readLocks).toSorted(),
          incompatible: incompatibleChanges(before, after).toSorted()
        })
      )
    })
  ).pipe(
    Effect.catchIf(
      (error): error is Undo => error instanceof Undo,
      (undo) => Effect.succeed(undo.impact)
    )
  )

/** A tag of a migration's comment that accepts an impact. */
const TAGS = { blocking: "@blocks", incompatible: "@incompatible" } as const

/** The shortest reason, in characters: a word is none. */
const MIN_REASON = 20

/** The reason with which the comment of a migration accepts an impact: the text after `@blocks` or `@incompatible`, up to the next tag. */
export const acceptedReason = (source: string, kind: keyof MigrationImpact): Option.Option<string> => {
  const text = new RegExp(`${TAGS[kind]}\\s+([^@]*?)\\s*(?:@|\\*/)`).exec(source)?.[1] ?? ""
  const reason = text.replaceAll(/\s*\n\s*\*\s*/g, " ").trim()
  return reason.length < MIN_REASON ? Option.none() : Option.some(reason)
}

/** The impacts of a migration that its source does not accept, with what to do. */
export const refusedImpacts = (source: string, impact: MigrationImpact): ReadonlyArray<string> => {
  const refuse = (kind: keyof MigrationImpact, advice: string) =>
    impact[kind].length === 0 || Option.isSome(acceptedReason(source, kind))
      ? []
      : impact[kind].map(
          (text) => `${text}: ${advice}, or give the reason after ${TAGS[kind]} in the migration's comment`
        )
  return [
    ...refuse("blocking", "do it in steps that block no writers"),
    ...refuse("incompatible", "replicas of the previous release run beside it; do it one release later")
  ]
}
