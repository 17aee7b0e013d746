import type { SqlClient, Statement } from "effect/sql"
import { columnsOf, dayOf, type Sign, slotOf } from "../store/dailyCounts.ts"

const SLOTS = 8

/** The columns that `runCounts` reads, of a table with this name in the statement. */
export const countedRunColumns = (table?: string): string =>
  columnsOf(["org_id", "task_id", "release_id", "source", "created_at"], table)

/** A CTE that counts the runs in `rows`, a CTE with `countedRunColumns`, by the release that answered them. */
export const runCounts = (sql: SqlClient.SqlClient, rows: string, sign: Sign): Statement.Fragment =>
  sql.literal(`
  counted_runs AS (
    INSERT INTO run_counts AS c (org_id, day, task_id, release_id, slot, runs)
    SELECT
      org_id, ${dayOf("created_at")}, task_id, CASE source WHEN 'provider' THEN release_id ELSE '' END, ${slotOf(SLOTS)},
      ${sign} * count(*)
    FROM ${rows}
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (org_id, day, task_id, release_id, slot) DO UPDATE
    SET runs = c.runs + excluded.runs
  )`)
