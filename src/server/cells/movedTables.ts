import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type SealedColumn, sealedColumns } from "../secrets/SecretBox/sealedColumns.ts"
import { rowsOf } from "../store/rows.ts"

/** Tables with a column `org_id` that describe the installation, not the organization. */
export const cellTables: ReadonlyArray<string> = [
  "organization_copies",
  "organization_copy_rows",
  "organization_moves",
  "organization_move_replicas"
]

/** Columns that the other installation assigns itself: the shards and the row numbers of its own queue. */
const assignedColumns: Readonly<Record<string, ReadonlyArray<string>>> = { delivery_queue: ["shard", "seq"] }

/** The order of rows that are numbered on import. */
const importOrder: Readonly<Record<string, string>> = { delivery_queue: "seq" }

/**
 * Tables that no copy contains. Without its row in `organizations`, a copy is no organization: it has no name and no keys. Addresses are the
 * keys of two small tables, and the keys of copied rows are kept until the move ends.
 */
const uncopiedTables: ReadonlyArray<string> = ["organizations", "email_addresses", "email_verification_links"]

/** A column of a table that moves. */
export interface MovedColumn {
  readonly name: string
  /** The type in SQL, such as `timestamp with time zone`. */
  readonly type: string
  /** How values are sealed; undefined: they are not. */
  readonly sealed: SealedColumn | undefined
}

/** A table whose rows of an organization move with it. */
export interface MovedTable {
  readonly name: string
  readonly columns: ReadonlyArray<MovedColumn>
  /** Column that the rows are exported in the order of; undefined: any order. */
  readonly orderBy: string | undefined
  /** The columns of the primary key without `org_id`. */
  readonly key: ReadonlyArray<MovedColumn>
  /** Whether a copy contains its rows, so that an export after the copy has only those that differ. */
  readonly isCopied: boolean
  /** Whether a foreign key of another table refers to it, so that its rows are updated in place. */
  readonly isParent: boolean
}

const columnRows = rowsOf(
  Schema.Struct({
    table_name: Schema.String,
    is_partitioned: Schema.Boolean,
    column_name: Schema.String,
    type: Schema.String
  })
)
const referenceRows = rowsOf(
  Schema.Struct({ child: Schema.String, parent: Schema.String, cascades: Schema.Boolean })
)
type Reference = Effect.Success<ReturnType<typeof referenceRows.all>>[number]
const keyRows = rowsOf(Schema.Struct({ table_name: Schema.String, columns: Schema.Array(Schema.String) }))

/** Lists tables with parents of foreign keys before their children. */
const parentsFirst = (
  names: ReadonlyArray<string>,
  references: ReadonlyArray<Reference>
): ReadonlyArray<string> => {
  const listed = new Set<string>()
  const visit = (name: string): void => {
    if (listed.has(name)) return
    for (const { child, parent } of references) if (child === name && parent !== name) visit(parent)
    listed.add(name)
  }
  names.forEach(visit)
  return [...listed]
}

/**
 * Every table with a column `org_id`, as the database's catalog has it, parents of foreign keys first: a table of a later migration moves
 * too. Both sides read their own catalog, and an import refuses a file with other tables or columns.
 */
export const listMovedTables = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const columns = yield* columnRows.all(sql`
    SELECT
      c.relname::text AS table_name,
      c.relkind = 'p' AS is_partitioned,
      a.attname::text AS column_name,
      format_type(a.atttypid, a.atttypmod) AS type
    FROM pg_class c
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'organizations'::regclass)
      AND c.relkind IN ('r', 'p')
      AND NOT c.relispartition
      AND EXISTS (
        SELECT FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'org_id' AND NOT o.attisdropped
      )
    ORDER BY c.relname::text COLLATE "C", a.attname::text COLLATE "C"
  `)
  const references = yield* referenceRows.all(sql`
    SELECT child.relname::text AS child, parent.relname::text AS parent, f.confdeltype = 'c' AS cascades
    FROM pg_constraint f
      JOIN pg_class child ON child.oid = f.conrelid
      JOIN pg_class parent ON parent.oid = f.confrelid
    WHERE f.contype = 'f'
      AND child.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'organizations'::regclass)
  `)
  const keys = yield* keyRows.all(sql`
    SELECT
      c.relname::text AS table_name,
      array_agg(a.attname::text ORDER BY k.position) FILTER (WHERE a.attname <> 'org_id') AS columns
    FROM pg_constraint p
      JOIN pg_class c ON c.oid = p.conrelid
      CROSS JOIN unnest(p.conkey) WITH ORDINALITY AS k (attnum, position)
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
    WHERE p.contype = 'p'
      AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'organizations'::regclass)
    GROUP BY c.relname
    HAVING bool_or(a.attname = 'org_id') AND count(*) > 1
  `)
  const byTable = Map.groupBy(
    columns.filter(({ table_name }) => !cellTables.includes(table_name)),
    ({ table_name }) => table_name
  )
  const copied = new Set<string>()
  return parentsFirst([...byTable.keys()], references).flatMap((name): ReadonlyArray<MovedTable> => {
    const own = byTable.get(name)
    if (own === undefined) return []
    const assigned = assignedColumns[name] ?? []
    const moved = own
      .filter(({ column_name }) => !assigned.includes(column_name))
      .map(({ column_name, type }) => ({
        name: column_name,
        type,
        sealed: sealedColumns.find(({ column, table }) => table === name && column === column_name)
      }))
    const keyColumns = keys.find(({ table_name }) => table_name === name)?.columns ?? []
    const key = keyColumns.flatMap((column) => moved.filter((one) => one.name === column))
    // A row that is gone from a copied parent takes its children along, in both installations.
    const parents = references.filter(({ child, parent }) => child === name && parent !== name)
    const isCopied =
      key.length > 0 &&
      key.length === keyColumns.length &&
      importOrder[name] === undefined &&
      !uncopiedTables.includes(name) &&
      // Retention drops partitions, in each installation at its own time.
      !own.some(({ is_partitioned }) => is_partitioned) &&
      moved.every(({ sealed }) => sealed === undefined) &&
      parents.every(({ cascades, parent }) => cascades && copied.has(parent))
    if (isCopied) copied.add(name)
    const isParent = references.some(({ parent }) => parent === name)
    return [{ name, orderBy: importOrder[name], columns: moved, key, isCopied, isParent }]
  })
})

/** A quoted identifier. Names come from the catalog only. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A text literal. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`
