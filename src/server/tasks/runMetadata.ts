/**
 * Parts of the statements that keep the index of the metadata of runs, `run_metadata`: the statement that inserts or deletes runs also
 * writes their members. A member is indexed by a digest, because an index entry has a limited size.
 */
import type { SqlClient, Statement } from "effect/sql"

/** The first members of a run that are indexed. */
const MAX_MEMBERS = 16

/** SQL of the digest of a member: its name, an equals sign, and its value as JSON. */
export const memberDigest = (sql: SqlClient.SqlClient, member: Statement.Fragment) => sql`
  substr(sha256(convert_to(${member}, 'UTF8')), 1, 16)`

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
