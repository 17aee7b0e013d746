import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { PageRequest } from "../../../api/Pagination.ts"
import type { Dataset } from "../../../domain/tasks/Dataset.ts"
import { DatasetId, ExampleId, KeyId, type OrgId, TaskId } from "../../../domain/Ids.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"
import { ofExistingTask } from "../requireTask.ts"

/** A row of `datasets`, without the state of its digest. */
const VersionRow = Schema.Struct({
  dataset_id: DatasetId,
  task_id: TaskId,
  version: Schema.Int,
  base_dataset_id: Schema.NullOr(DatasetId),
  example_count: Schema.Int,
  /** Examples that were erased; they are not in `example_count`. */
  examples_erased: Schema.Int,
  content_digest: Schema.String,
  /** The highest id among the version's examples. */
  last_example_id: ExampleId,
  /** The highest ordinal of an input of this or an earlier version. */
  last_ordinal: Schema.Int,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String
})
export type VersionRow = typeof VersionRow.Type

const columns = Object.keys(VersionRow.fields).join(", ")

const versionRows = rowsOf(VersionRow)

/** Converts a row to the API's dataset. */
export const toDataset = (row: VersionRow): Dataset => ({
  id: row.dataset_id,
  task_id: row.task_id,
  version: row.version,
  base_dataset_id: row.base_dataset_id,
  example_count: row.example_count,
  examples_erased: row.examples_erased,
  content_digest: row.content_digest,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name }
})

/** Finds the organization's dataset version with this id. None of a task that was deleted: a worker is deleting its versions. */
export const findVersion = (sql: SqlClient.SqlClient, org_id: OrgId, id: DatasetId) =>
  versionRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM datasets
    WHERE org_id = ${org_id}
      AND dataset_id = ${id}
      AND ${ofExistingTask(sql, "datasets")}
  `)

/** Reads a version that exists, because another row references it; a missing row is a defect. */
export const getVersion = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: DatasetId
) {
  return (yield* findVersion(sql, org_id, id)) ?? (yield* missing(id))
})

const missing = (id: DatasetId) => Effect.die(new Error(`Dataset version ${id} is referenced but missing`))

/**
 * Lists a task's versions, newest first: one row more than the page size, which shows whether there is a next page. In the order of version
 * numbers, because ids contain timestamps of several machines' clocks.
 */
export const listVersions = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<DatasetId>
) =>
  versionRows.all(sql`
    SELECT ${sql.literal(columns)}
    FROM datasets
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      ${
        request.cursor === undefined
          ? sql.literal("")
          : sql`
            AND version < (
              SELECT version
              FROM datasets
              WHERE org_id = ${org_id}
                AND task_id = ${task_id}
                AND dataset_id = ${request.cursor}
            )
          `
      }
    ORDER BY version DESC
    LIMIT ${rowLimit(request)}
  `)

/** Reads the incremental state of the content digest of a version that exists. */
export const getContentState = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: DatasetId
) {
  const [row] = yield* sql<{ readonly content_state: Uint8Array }>`
    SELECT content_state
    FROM datasets
    WHERE org_id = ${org_id}
      AND dataset_id = ${id}
  `
  return row?.content_state ?? (yield* missing(id))
})

/** Inserts a version. */
export const insertVersion = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  row: VersionRow,
  state: Uint8Array
) => sql`
  INSERT INTO datasets (
    org_id, dataset_id, task_id, version, base_dataset_id, example_count, content_state, content_digest, last_example_id,
    last_ordinal, created_at, created_by_id, created_by_name
  )
  VALUES (
    ${org_id}, ${row.dataset_id}, ${row.task_id}, ${row.version}, ${row.base_dataset_id}, ${row.example_count}, ${state},
    ${row.content_digest}, ${row.last_example_id}, ${row.last_ordinal}, ${toDate(row.created_at)}, ${row.created_by_id}, ${row.created_by_name}
  )
`
