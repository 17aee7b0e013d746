import { Array as Arr, Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { PageRequest } from "../../../api/Pagination.ts"
import type { Dataset } from "../../../domain/tasks/Dataset.ts"
import { DatasetId, ExampleId, KeyId, type OrgId, TaskId } from "../../../domain/Ids.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { rowLimit } from "../../store/Pagination.ts"

/** A version as the store holds it. */
const VersionRow = Schema.Struct({
  dataset_id: DatasetId,
  task_id: TaskId,
  version: Schema.Int,
  base_dataset_id: Schema.NullOr(DatasetId),
  example_count: Schema.Int,
  content_digest: Schema.String,
  /** No example of the version has a later id. */
  last_example_id: ExampleId,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String
})
export type VersionRow = typeof VersionRow.Type

const columns = Object.keys(VersionRow.fields).join(", ")

const decodeVersions = Schema.decodeUnknownEffect(Schema.Array(VersionRow), { disableChecks: true })

/** A version as it is shown. */
export const toDataset = (row: VersionRow): Dataset => ({
  id: row.dataset_id,
  task_id: row.task_id,
  version: row.version,
  base_dataset_id: row.base_dataset_id,
  example_count: row.example_count,
  content_digest: row.content_digest,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name }
})

/** The version of this id, if the organization has one. */
export const findVersion = (sql: SqlClient.SqlClient, org_id: OrgId, id: DatasetId) =>
  sql`
    SELECT ${sql.literal(columns)}
    FROM datasets
    WHERE org_id = ${org_id}
      AND dataset_id = ${id}
  `.pipe(Effect.flatMap(decodeVersions), Effect.map(Arr.head))

/** The versions of a task, newest first, one row more than the page holds. By their numbers: ids are of several machines' clocks. */
export const listVersions = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<DatasetId>
) =>
  sql`
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
  `.pipe(Effect.flatMap(decodeVersions))

/** The state that a version's digest is made of. */
export const readContentState = (sql: SqlClient.SqlClient, org_id: OrgId, id: DatasetId) =>
  sql<{ readonly content_state: Uint8Array }>`
    SELECT content_state
    FROM datasets
    WHERE org_id = ${org_id}
      AND dataset_id = ${id}
  `.pipe(Effect.map((rows) => Option.map(Arr.head(rows), (row) => row.content_state)))

/** Writes a version. */
export const insertVersion = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  row: VersionRow,
  state: Uint8Array
) => sql`
  INSERT INTO datasets (
    org_id, dataset_id, task_id, version, base_dataset_id, example_count, content_state, content_digest, last_example_id,
    created_at, created_by_id, created_by_name
  )
  VALUES (
    ${org_id}, ${row.dataset_id}, ${row.task_id}, ${row.version}, ${row.base_dataset_id}, ${row.example_count}, ${state},
    ${row.content_digest}, ${row.last_example_id}, ${toDate(row.created_at)}, ${row.created_by_id}, ${row.created_by_name}
  )
`
