import { Array as Arr, Order } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { OrgId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import { formatTimestamp, type Timestamp } from "../../domain/Time.ts"
import { type GivenRows, insertGiven, int4s, texts } from "../store/givenRows.ts"
import { columnsOf, dayOf, type Sign, slotOf } from "../store/dailyCounts.ts"

const SLOTS = 8

/** What `run_counts` does with a count that it has. */
const ADDED = `ON CONFLICT (org_id, day, task_id, release_id, slot) DO UPDATE
    SET runs = c.runs + excluded.runs`

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
    ${ADDED}
  )`)

/** The counted members of a run. */
interface CountedRun {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly release_id: ReleaseId
  readonly source: "provider" | "logged"
  readonly created_at: Timestamp
}

/** Counts runs of one organization by a statement of its own, on a cluster. */
export const countRuns = (sql: SqlClient.SqlClient, runs: ReadonlyArray<CountedRun>) => {
  const groups = Object.entries(
    Arr.groupBy(runs, ({ created_at, release_id, source, task_id }) =>
      [formatTimestamp(created_at).slice(0, 10), task_id, source === "provider" ? release_id : ""].join(" ")
    )
  ).toSorted(Order.mapInput(Order.String, ([key]) => key))
  const part = (index: number) => texts(groups.map(([key]) => key.split(" ")[index] ?? ""))
  const rows: GivenRows = {
    ops: groups.map((_, index) => index),
    columns: {
      org_id: texts(groups.map(([, [{ org_id }]]) => org_id)),
      day: part(0),
      task_id: part(1),
      release_id: part(2),
      runs: int4s(groups.map(([, group]) => group.length))
    }
  }
  return insertGiven(
    sql,
    {
      into: "run_counts AS c",
      columns: {
        org_id: "g.org_id",
        day: "g.day::date",
        task_id: "g.task_id",
        release_id: "g.release_id",
        slot: slotOf(SLOTS),
        runs: "g.runs"
      },
      rows: { g: rows },
      ending: ADDED
    },
    rows
  )
}
