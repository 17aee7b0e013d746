import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { DatasetId, KeyId, type OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { JsonSchema, type Task } from "../../../domain/tasks/Task.ts"
import { Provider } from "../../../domain/tasks/Provider.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { lockOnNode } from "../../store/Cluster.ts"
import { pageWithinBytes } from "../../store/Pagination.ts"
import { countOf, hasRow, rowsOf } from "../../store/rows.ts"

/** A row of `tasks`, and whether the provider's key and headers are stored. */
const TaskRow = Schema.Struct({
  task_id: TaskId,
  name: Schema.String,
  instructions: Schema.String,
  input_schema: JsonSchema,
  answer_schema: JsonSchema,
  /** The digests of the input schema and the answer schema. */
  input_schema_digest: Schema.String,
  answer_schema_digest: Schema.String,
  provider: Provider,
  /** Incremented by each change of the working copy: the instructions, or the provider without its key. */
  revision: Schema.Int,
  live_release_id: ReleaseId,
  canary_release_id: Schema.NullOr(ReleaseId),
  review_share: Schema.Finite,
  dataset_id: Schema.NullOr(DatasetId),
  first_run_at: Schema.NullOr(TimestampFromDate),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  self_review: Schema.Boolean,
  provider_key_set: Schema.Boolean,
  provider_headers_set: Schema.Boolean
})
export type TaskRow = typeof TaskRow.Type

const { provider_headers_set: _headers, provider_key_set: _key, ...storedFields } = TaskRow.fields

const hasCredential = (column: "api_key" | "headers"): string => `EXISTS (
    SELECT 1
    FROM provider_keys
    WHERE provider_keys.org_id = tasks.org_id
      AND provider_keys.task_id = tasks.task_id
      AND provider_keys.base_url = tasks.provider ->> 'base_url'
      AND provider_keys.${column} IS NOT NULL
  )`

const columns = [
  ...Object.keys(storedFields),
  `${hasCredential("api_key")} AS provider_key_set`,
  `${hasCredential("headers")} AS provider_headers_set`
].join(", ")

const taskRows = rowsOf(TaskRow)

/** Converts a row to the API's task. */
export const toTask = (row: TaskRow): Task => ({
  id: row.task_id,
  name: row.name,
  instructions: row.instructions,
  input_schema: row.input_schema,
  answer_schema: row.answer_schema,
  provider: row.provider,
  provider_key_set: row.provider_key_set,
  provider_headers_set: row.provider_headers_set,
  self_review: row.self_review,
  live_release_id: row.live_release_id,
  canary_release_id: row.canary_release_id,
  review_share: row.review_share,
  dataset_id: row.dataset_id,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name }
})

/** Reads the organization's task, optionally with a row lock until the transaction ends. Fails with a 404 if there is none. */
export const findTask = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: TaskId,
  lock: "" | "FOR NO KEY UPDATE" | "FOR UPDATE" = ""
) {
  const one = sql`
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${id}`
  const read = taskRows.first(sql`SELECT ${sql.literal(columns)} ${one}`)
  // A node of a cluster locks rows in a statement about one table only.
  const row = yield* Effect.orDie(
    lock === ""
      ? read
      : Effect.andThen(lockOnNode(sql, org_id, sql`SELECT 1 AS locked ${one} ${sql.literal(lock)}`), read)
  )
  return row ?? (yield* notFound("task"))
})

/** Reads a page of the organization's tasks, newest first. A page of tasks with large schemas or instructions has fewer than `limit`. */
export const listTasks = (sql: SqlClient.SqlClient, org_id: OrgId, request: PageRequest<TaskId>) => {
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "tasks",
    id: "task_id",
    bytes:
      "octet_length(instructions) + octet_length(input_schema::text) + octet_length(answer_schema::text)",
    where: sql`org_id = ${org_id}`,
    request
  })
  return listedRows.all(sql`
    ${ctes}
    SELECT ${sql.literal(columns)}, found
    FROM sized
      JOIN tasks USING (task_id)
    WHERE org_id = ${org_id}
      AND ${isOnPage}
    ORDER BY task_id DESC
  `)
}

const listedRows = rowsOf(Schema.Struct({ ...TaskRow.fields, found: Schema.Int }))

/** Counts the organization's tasks. */
export const countTasks = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM tasks
    WHERE org_id = ${org_id}
  `)

/** Whether the task is that of a reviewer model. */
export const isReviewer = (sql: SqlClient.SqlClient, org_id: OrgId, id: TaskId) =>
  Effect.orDie(
    hasRow(sql`
      SELECT 1 AS found
      FROM reviewers
      WHERE org_id = ${org_id}
        AND task_id = ${id}
    `)
  )

/** Inserts a task. */
export const insertTask = (sql: SqlClient.SqlClient, org_id: OrgId, row: TaskRow) => sql`
  INSERT INTO tasks (
    org_id, task_id, name, instructions, input_schema, answer_schema, input_schema_digest, answer_schema_digest, provider, revision,
    live_release_id, self_review, review_share, created_at, created_by_id, created_by_name
  )
  VALUES (
    ${org_id}, ${row.task_id}, ${row.name}, ${row.instructions}, ${JSON.stringify(row.input_schema)},
    ${JSON.stringify(row.answer_schema)}, ${row.input_schema_digest}, ${row.answer_schema_digest}, ${JSON.stringify(row.provider)},
    ${row.revision}, ${row.live_release_id}, ${row.self_review}, ${row.review_share}, ${toDate(row.created_at)},
    ${row.created_by_id}, ${row.created_by_name}
  )
`

/** Updates the columns that a PATCH can change. */
export const updateTask = (sql: SqlClient.SqlClient, org_id: OrgId, row: TaskRow) => sql`
  UPDATE tasks
  SET
    name = ${row.name},
    instructions = ${row.instructions},
    input_schema = ${JSON.stringify(row.input_schema)},
    answer_schema = ${JSON.stringify(row.answer_schema)},
    input_schema_digest = ${row.input_schema_digest},
    answer_schema_digest = ${row.answer_schema_digest},
    provider = ${JSON.stringify(row.provider)},
    self_review = ${row.self_review},
    review_share = ${row.review_share},
    revision = ${row.revision}
  WHERE org_id = ${org_id}
    AND task_id = ${row.task_id}
`

const schemaRows = rowsOf(Schema.Struct({ input_schema: JsonSchema, answer_schema: JsonSchema }))

/** Reads the input schema and the answer schema of a task. Fails with a 404 if the task has been deleted meanwhile. */
export const readSchemas = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId, id: TaskId) {
  const row = yield* Effect.orDie(
    schemaRows.first(sql`
      SELECT input_schema, answer_schema
      FROM tasks
      WHERE org_id = ${org_id}
        AND task_id = ${id}
    `)
  )
  return row ?? (yield* notFound("task"))
})
