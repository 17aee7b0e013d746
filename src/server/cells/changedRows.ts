import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { textArray } from "../store/pgArrays.ts"
import { literal, type MovedTable, quoted } from "./movedTables.ts"
import { inPageOrder, readLines } from "./readTable.ts"
import { digestOf, keyOf, lineOf } from "./rowExpressions.ts"
import { readRowsDigest } from "./rowsDigest.ts"

/** Memory of a sort or join of all rows of a table; a larger one spills to temporary files. */
const QUERY_MEMORY = "64MB"

/**
 * Keeps the key and the digest of each present row of a table, for the export after the copy. In order of the key, so that the index of a
 * million rows grows at its end. Runs in the transaction that copies it.
 */
export const storeCopiedRows = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  table: MovedTable,
  org_id: OrgId
) {
  yield* sql.unsafe(`SET LOCAL work_mem = '${QUERY_MEMORY}'`)
  yield* sql.unsafe(
    `INSERT INTO organization_copy_rows (org_id, table_name, key, digest) ` +
      `SELECT org_id, $2, ${keyOf(table)}, ${digestOf(table)} FROM ${quoted(table.name)} AS moved WHERE org_id = $1 ORDER BY 3`,
    [org_id, table.name]
  )
  return yield* readRowsDigest(
    sql,
    "SELECT digest FROM organization_copy_rows WHERE org_id = $1 AND table_name = $2",
    [org_id, table.name]
  )
})

/**
 * Compares the rows of a table with the copied ones by their digests, so that every change counts, whatever made it. Passes the keys of
 * deleted and different rows, then the lines of rows that are new or different, and returns the digest of all present rows. Rows of a
 * parent are updated in place: deleting them would delete their children. Runs in a transaction of the caller, which drops the temporary
 * tables.
 */
export const readChanges = Effect.fnUntraced(function* <E, R>(
  sql: SqlClient.SqlClient,
  table: MovedTable,
  org_id: OrgId,
  use: {
    readonly removed: (keys: ReadonlyArray<string>) => Effect.Effect<void, E, R>
    readonly rows: (lines: ReadonlyArray<string>) => Effect.Effect<void, E, R>
  }
) {
  const from = `FROM ${quoted(table.name)} AS moved`
  yield* sql.unsafe(`SET LOCAL work_mem = '${QUERY_MEMORY}'`)
  yield* inPageOrder(
    sql,
    sql.unsafe(
      `CREATE TEMPORARY TABLE moved_rows ON COMMIT DROP AS ` +
        `SELECT ctid AS place, ${keyOf(table)} AS key, ${digestOf(table)} AS digest ${from} WHERE org_id = '${org_id}'`
    )
  )
  const digest = yield* readRowsDigest(sql, "SELECT digest FROM pg_temp.moved_rows")
  yield* inPageOrder(
    sql,
    sql.unsafe(
      `CREATE TEMPORARY TABLE moved_changes ON COMMIT DROP AS ` +
        `SELECT coalesce(present.key, copied.key) AS key, present.place, copied.key IS NOT NULL AS is_copied ` +
        `FROM pg_temp.moved_rows AS present ` +
        `FULL JOIN (SELECT key, digest FROM organization_copy_rows WHERE org_id = '${org_id}' AND table_name = ${literal(table.name)}) AS copied ` +
        `ON copied.key = present.key ` +
        `WHERE present.digest IS DISTINCT FROM copied.digest`
    )
  )
  const removed = table.isParent ? "is_copied AND place IS NULL" : "is_copied"
  yield* readLines(sql, `SELECT key AS line FROM pg_temp.moved_changes WHERE ${removed}`, use.removed)
  // By their places, which do not change while the transaction has locked the table and the organization is frozen. If they did, another
  // organization's row may be there now: it is not exported, and the import refuses the difference. By their keys, the planner
  // might choose another index than that of the key, which has many rows for each.
  yield* readLines(
    sql,
    `SELECT ${lineOf(table)} AS line ${from} JOIN pg_temp.moved_changes AS changed ON moved.ctid = changed.place WHERE moved.org_id = '${org_id}'`,
    use.rows
  )
  return digest
})

/** Creates the temporary table for {@link removeRows}. */
export const createRemovedKeys = (sql: SqlClient.SqlClient) =>
  sql`CREATE TEMPORARY TABLE removed_keys (key text COLLATE "C") ON COMMIT DROP`

/** Adds keys of rows to remove. */
export const addRemovedKeys = (sql: SqlClient.SqlClient, keys: ReadonlyArray<string>) =>
  sql`INSERT INTO pg_temp.removed_keys SELECT unnest(${textArray(keys)})`

/**
 * Deletes the rows of a table whose keys were added, in one pass over the organization's rows: for each key alone, the planner might choose an index
 * that has many rows for it, because it has no statistics of a table that was just filled. For the same reason it may not choose nested
 * loops.
 */
export const removeRows = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  table: MovedTable,
  org_id: OrgId
) {
  yield* sql`SET LOCAL enable_nestloop = off`
  yield* inPageOrder(
    sql,
    sql.unsafe(
      `DELETE FROM ${quoted(table.name)} AS moved USING pg_temp.removed_keys AS removed ` +
        `WHERE moved.org_id = $1 AND removed.key = ${keyOf(table)}`,
      [org_id]
    )
  )
  yield* sql`SET LOCAL enable_nestloop TO DEFAULT`
  yield* sql`DELETE FROM pg_temp.removed_keys`
})
