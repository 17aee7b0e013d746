import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OrgId } from "../../src/domain/Ids.ts"
import { approvalCounts } from "../../src/server/approvals/approvalCounts.ts"
import { deliveryCounts } from "../../src/server/delivery/Delivery/deliveryCounts.ts"
import { feedbackCounts } from "../../src/server/tasks/feedbackCounts.ts"
import { runCounts } from "../../src/server/tasks/runCounts.ts"

/** A table of counts: its key without the organization and the slot, its numbers, and a query for the rows that it counts. */
interface Counted {
  readonly table: string
  readonly key: ReadonlyArray<string>
  readonly numbers: ReadonlyArray<string>
  readonly rows: string
}

const day = (column: string) => `(${column} AT TIME ZONE 'UTC')::date AS day`
const outcome = "coalesce(CASE WHEN status = 'expired' THEN decision_source END, status) AS outcome"
const ofRelease = "task_id, coalesce(release_id, '') AS release_id"

/** The queries are written apart from the statements of the service. */
const tables: ReadonlyArray<Counted> = [
  {
    table: "approval_counts",
    key: ["day", "outcome", "bucket"],
    numbers: ["closed", "escalated"],
    rows: `
      SELECT
        ${day("decided_at")}, ${outcome}, 1 AS closed, num_nonnulls(escalated_at) AS escalated,
        CASE WHEN decision_source = 'human'
          THEN floor(ln(greatest(1, extract(epoch FROM decided_at - requested_at)::float8)) / ln(1.1::float8)) ELSE -1 END AS bucket
      FROM approvals WHERE org_id = $1 AND decided_at IS NOT NULL`
  },
  {
    table: "approval_group_counts",
    key: ["day", "kind", "name", "outcome"],
    numbers: ["closed"],
    rows: `
      SELECT ${day("decided_at")}, 'tool' AS kind, tool AS name, ${outcome}, 1 AS closed
      FROM approvals WHERE org_id = $1 AND decided_at IS NOT NULL
      UNION ALL
      SELECT ${day("decided_at")}, 'person', decided_by_id, ${outcome}, 1
      FROM approvals WHERE org_id = $1 AND decided_by_id IS NOT NULL`
  },
  {
    table: "delivery_counts",
    key: ["day", "destination_id"],
    numbers: ["delivered", "failed"],
    rows: `
      SELECT
        ${day("created_at")}, destination_id, (status IN ('delivered', 'partial'))::int AS delivered, (status = 'failed')::int AS failed
      FROM deliveries WHERE org_id = $1`
  },
  {
    table: "feedback_counts",
    key: ["day", "task_id", "release_id"],
    numbers: ["positive", "neutral", "negative", "value_excess"],
    rows: `
      SELECT
        ${day("created_at")}, ${ofRelease}, (score = 1)::int AS positive, (score = 0)::int AS neutral, (score = -1)::int AS negative,
        coalesce(round((score_value - score) * 1000000), 0) AS value_excess
      FROM feedback WHERE org_id = $1 AND is_current`
  },
  {
    table: "feedback_label_counts",
    key: ["day", "task_id", "release_id", "score_label"],
    numbers: ["count"],
    rows: `
      SELECT ${day("created_at")}, ${ofRelease}, score_label, 1 AS count
      FROM feedback WHERE org_id = $1 AND is_current AND score_label IS NOT NULL`
  },
  {
    table: "run_counts",
    key: ["day", "task_id", "release_id"],
    numbers: ["runs"],
    rows: `
      SELECT ${day("created_at")}, task_id, CASE WHEN source = 'provider' THEN release_id ELSE '' END AS release_id, 1 AS runs
      FROM runs WHERE org_id = $1`
  }
]

/** Counts that are not zero, such as `run_counts 2026-11-21 tsk_1 rel_1 runs`. */
export type Counts = Readonly<Record<string, number>>

const read = Effect.fnUntraced(function* (org_id: OrgId, rowsOf: (counted: Counted) => string) {
  const sql = yield* SqlClient.SqlClient
  const counts: Record<string, number> = {}
  for (const counted of tables) {
    for (const number of counted.numbers) {
      const rows = yield* sql.unsafe<{ readonly key: string; readonly total: number }>(
        `SELECT concat_ws(' ', '${counted.table}', ${counted.key.join(", ")}, '${number}') AS key, sum(${number})::float8 AS total
        FROM (${rowsOf(counted)}) AS rows
        GROUP BY 1
        HAVING sum(${number}) <> 0
        ORDER BY 1`,
        [org_id]
      )
      for (const { key, total } of rows) counts[key] = total
    }
  }
  return counts satisfies Counts
}, Effect.orDie)

/** The counts of an organization as the service has written them. */
export const readCounts = (org_id: OrgId) =>
  read(org_id, ({ table }) => `SELECT * FROM ${table} WHERE org_id = $1`)

/** The counts of an organization as its stored rows give them. */
export const recount = (org_id: OrgId) => read(org_id, ({ rows }) => rows)

/** Counts rows that a test has written without the service, by the service's own statements. */
export const countRows = Effect.fnUntraced(function* (org_id: OrgId) {
  const sql = yield* SqlClient.SqlClient
  for (const { table } of tables) yield* sql`DELETE FROM ${sql(table)} WHERE org_id = ${org_id}`
  for (const [table, counts] of [
    ["approvals", approvalCounts],
    ["deliveries", deliveryCounts],
    ["feedback", (client: SqlClient.SqlClient) => feedbackCounts(client, { stored: 1 })],
    ["runs", runCounts]
  ] as const) {
    yield* sql`
      WITH stored AS (SELECT * FROM ${sql(table)} WHERE org_id = ${org_id}), ${counts(sql, "stored", 1)}
      SELECT count(*) FROM stored
    `
  }
}, Effect.orDie)
