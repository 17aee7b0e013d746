import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { PageRequest } from "../../../api/Pagination.ts"
import { ComparisonId, DatasetId, KeyId, type OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import type { Release } from "../../../domain/tasks/Task.ts"
import { Provider } from "../../../domain/tasks/Provider.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { pageWithinBytes, toPageWithinBytes } from "../../store/Pagination.ts"
import { countOf, rowsOf } from "../../store/rows.ts"

const ReleaseRow = Schema.Struct({
  release_id: ReleaseId,
  task_id: TaskId,
  number: Schema.Int,
  instructions: Schema.String,
  provider: Provider,
  dataset_id: Schema.NullOr(DatasetId),
  comparison_id: Schema.NullOr(ComparisonId),
  restored_release_id: Schema.NullOr(ReleaseId),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String
})

const columns = Object.keys(ReleaseRow.fields)
  .map((name) => `releases.${name}`)
  .join(", ")

const releaseRows = rowsOf(ReleaseRow)

const toRelease = (row: typeof ReleaseRow.Type): Release => ({
  id: row.release_id,
  task_id: row.task_id,
  number: row.number,
  instructions: row.instructions,
  provider: row.provider,
  dataset_id: row.dataset_id,
  comparison_id: row.comparison_id,
  restored_release_id: row.restored_release_id,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name }
})

/** Finds the organization's release with this id. */
export const findRelease = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ReleaseId
) {
  const row = yield* releaseRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM releases
    WHERE org_id = ${org_id}
      AND release_id = ${id}
  `)
  return row === undefined ? undefined : toRelease(row)
})

/** Finds the release of the same task that was live before; undefined if this is the first. */
export const findReleaseBefore = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ReleaseId
) {
  const row = yield* releaseRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM releases
    WHERE org_id = ${org_id}
      AND release_id = (
        SELECT previous_release_id
        FROM releases
        WHERE org_id = ${org_id}
          AND release_id = ${id}
      )
  `)
  return row === undefined ? undefined : toRelease(row)
})

/** Reads a release that exists, because another row references it; a missing row is a defect. */
export const getRelease = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ReleaseId
) {
  const release = yield* findRelease(sql, org_id, id)
  return release ?? (yield* Effect.die(new Error(`Release ${id} is referenced but missing`)))
})

/** Reads a page of a task's releases, newest first. A page of releases with long instructions has fewer than `limit`. */
export const listReleases = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<ReleaseId>
) => {
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "releases",
    id: "release_id",
    bytes: "octet_length(instructions)",
    where: sql`org_id = ${org_id} AND task_id = ${task_id}`,
    request
  })
  return Effect.map(
    listedRows.all(sql`
      ${ctes}
      SELECT ${sql.literal(columns)}, found
      FROM sized
        JOIN releases USING (release_id)
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND ${isOnPage}
      ORDER BY release_id DESC
    `),
    (rows) => toPageWithinBytes(rows, toRelease, (row) => row.release_id)
  )
}

const listedRows = rowsOf(Schema.Struct({ ...ReleaseRow.fields, found: Schema.Int }))

/**
 * The newest releases of a task, by their id, among which the highest number is. The id, which has the time, is made before the task is locked:
 * concurrent releases may be numbered in another order.
 */
const MAX_OUT_OF_ORDER = 1_000

/**
 * Inserts a release, and returns it with its number. The caller has locked the task, so that numbers are consecutive. `previous`: the live
 * release; null if it is the first of its task.
 */
export const insertRelease = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  release: Omit<Release, "number">,
  previous: ReleaseId | null
) {
  const number = yield* countOf(sql<{ readonly count: number }>`
  INSERT INTO releases (
    org_id, release_id, task_id, number, instructions, provider, dataset_id, comparison_id, restored_release_id, previous_release_id,
    created_at, created_by_id, created_by_name
  )
  SELECT
    ${org_id}::text, ${release.id}::text, ${release.task_id}::text, 1 + coalesce(max(number), 0),
    ${release.instructions}::text, ${JSON.stringify(release.provider)}::text::json,
    ${release.dataset_id}::text, ${release.comparison_id}::text, ${release.restored_release_id}::text, ${previous}::text,
    ${toDate(release.created_at)}::timestamptz, ${release.created_by.id}::text, ${release.created_by.name}::text
  FROM (
    SELECT number
    FROM releases
    WHERE org_id = ${org_id}
      AND task_id = ${release.task_id}
    ORDER BY release_id DESC
    LIMIT ${MAX_OUT_OF_ORDER}
  ) AS newest
  RETURNING number AS count
`)
  return { ...release, number } satisfies Release
})
