/**
 * Parts of the statements that keep the index of the metadata of runs, `run_metadata`: the statement that inserts or deletes runs also
 * writes their members. A member is indexed by a digest, because an index entry has a limited size.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { OrgId, RunId, TaskId } from "../../domain/Ids.ts"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"
import { type GivenRows, insertGiven, texts } from "../store/givenRows.ts"

/** The first members of a run that are indexed. */
const MAX_MEMBERS = 16

const DIGEST_BEFORE = "substr(sha256(convert_to("
const DIGEST_AFTER = ", 'UTF8')), 1, 16)"

/** SQL of the digest of a member: its name, an equals sign, and its value as JSON. */
export const memberDigest = (sql: SqlClient.SqlClient, member: Statement.Fragment) => sql`
  ${sql.literal(DIGEST_BEFORE)}${member}${sql.literal(DIGEST_AFTER)}`

/** A lateral subquery of the digests of the indexed members of `run.metadata`: of the strings, numbers and booleans. */
const digestsOfRun = (sql: SqlClient.SqlClient) => sql`
  CROSS JOIN LATERAL (
    SELECT ${memberDigest(sql, sql.literal("member.key || '=' || member.value::text"))} AS digest
    FROM json_each(run.metadata::json) WITH ORDINALITY AS member (key, value, number)
    WHERE json_typeof(member.value) IN ('string', 'number', 'boolean')
    ORDER BY number
    LIMIT ${sql.literal(String(MAX_MEMBERS))}
  ) AS member`

/** A CTE that indexes the metadata of inserted runs, a query of `org_id`, `task_id`, `run_id` and `metadata`. */
export const addedMetadata = (sql: SqlClient.SqlClient, runs: Statement.Fragment): Statement.Fragment => sql`
  added_metadata AS (
    INSERT INTO run_metadata (org_id, task_id, digest, run_id)
    SELECT run.org_id, run.task_id, member.digest, run.run_id
    FROM (${runs}) AS run
      ${digestsOfRun(sql)}
    ON CONFLICT DO NOTHING
  )`

/** Indexes the metadata of inserted runs by a statement of its own, on a cluster. */
export const insertMetadata = (
  sql: SqlClient.SqlClient,
  runs: ReadonlyArray<{
    readonly org_id: OrgId
    readonly task_id: TaskId
    readonly run_id: RunId
    readonly metadata: JsonObject
  }>
) => {
  const members = runs.flatMap((run) =>
    Object.entries(run.metadata)
      .filter(([, value]) => ["string", "number", "boolean"].includes(typeof value))
      .slice(0, MAX_MEMBERS)
      .map(([name, value]) => ({ run, member: `${name}=${JSON.stringify(value)}` }))
  )
  const rows: GivenRows = {
    ops: members.map((_, index) => index),
    columns: {
      org_id: texts(members.map(({ run }) => run.org_id)),
      task_id: texts(members.map(({ run }) => run.task_id)),
      run_id: texts(members.map(({ run }) => run.run_id)),
      member: texts(members.map(({ member }) => member))
    }
  }
  return insertGiven(
    sql,
    {
      into: "run_metadata",
      columns: {
        org_id: "m.org_id",
        task_id: "m.task_id",
        digest: `${DIGEST_BEFORE}m.member${DIGEST_AFTER}`,
        run_id: "m.run_id"
      },
      rows: { m: rows },
      ending: "ON CONFLICT DO NOTHING"
    },
    rows
  )
}

/** CTEs that delete the rows of deleted runs in `run_metadata` and `run_reviews`. `deleted` is a CTE of `org_id`, `task_id`, `run_id` and `metadata`. */
export const removedEntries = (sql: SqlClient.SqlClient, deleted: string): Statement.Fragment => sql`
  removed_metadata AS (
    DELETE FROM run_metadata
    USING ${sql(deleted)} AS run
      ${digestsOfRun(sql)}
    WHERE run_metadata.org_id = run.org_id
      AND run_metadata.task_id = run.task_id
      AND run_metadata.digest = member.digest
      AND run_metadata.run_id = run.run_id
  ), removed_reviews AS (
    DELETE FROM run_reviews
    USING ${sql(deleted)} AS run
    WHERE run_reviews.org_id = run.org_id
      AND run_reviews.task_id = run.task_id
      AND run_reviews.run_id = run.run_id
  )`
