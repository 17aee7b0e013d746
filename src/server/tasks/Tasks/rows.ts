import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { PageRequest } from "../../../api/Pagination.ts"
import { NotFound } from "../../../api/Problems.ts"
import { DatasetId, KeyId, type OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { Provider } from "../../../domain/tasks/Provider.ts"
import { JsonSchema, type Task } from "../../../domain/tasks/Task.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { beforeCursor, rowLimit } from "../../store/Pagination.ts"

/** A task as the store holds it. */
const TaskRow = Schema.Struct({
  task_id: TaskId,
  name: Schema.String,
  instructions: Schema.String,
  input_schema: JsonSchema,
  answer_schema: JsonSchema,
  /** The digests of the two shapes. */
  input_schema_digest: Schema.String,
  answer_schema_digest: Schema.String,
  provider: Provider,
  /** Rises with every change of the working copy: of the instructions, or of the provider without its key. */
  revision: Schema.Int,
  live_release_id: ReleaseId,
  dataset_id: Schema.NullOr(DatasetId),
  first_run_at: Schema.NullOr(TimestampFromDate),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  provider_key_set: Schema.Boolean
})
export type TaskRow = typeof TaskRow.Type

const { provider_key_set: _, ...stored } = TaskRow.fields

const columns = [
  ...Object.keys(stored),
  `EXISTS (
    SELECT 1
    FROM provider_keys
    WHERE provider_keys.org_id = tasks.org_id
      AND provider_keys.task_id = tasks.task_id
      AND provider_keys.base_url = tasks.provider ->> 'base_url'
  ) AS provider_key_set`
].join(", ")

const decodeTasks = Schema.decodeUnknownEffect(Schema.Array(TaskRow), { disableChecks: true })

/** A task as it is shown. */
export const toTask = (row: TaskRow): Task => ({
  id: row.task_id,
  name: row.name,
  instructions: row.instructions,
  input_schema: row.input_schema,
  answer_schema: row.answer_schema,
  provider: row.provider,
  provider_key_set: row.provider_key_set,
  live_release_id: row.live_release_id,
  dataset_id: row.dataset_id,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name }
})

/** What an unknown task is answered with, another organization's included. */
export const noTask = Effect.fail(new NotFound({ detail: "There is no such task in this organization" }))

/** The same where the body named the task. */
export const noTaskNamed = Effect.fail(
  new NotFound({
    detail: "There is no such task in this organization",
    errors: [{ pointer: "#/task_id", detail: "There is no such task" }]
  })
)

/** The organization's task; held to the end of the transaction where `lock` says so. */
export const findTask = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: TaskId,
  lock: "" | "FOR NO KEY UPDATE" = ""
) {
  const rows = yield* sql`
    SELECT ${sql.literal(columns)}
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${id}
    ${sql.literal(lock)}
  `.pipe(Effect.flatMap(decodeTasks), Effect.orDie)
  return rows[0] ?? (yield* noTask)
})

/** Fails where the organization has no such task; with what, depends on where the task was named. */
export const requireTask = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: TaskId,
  absent: typeof noTask = noTask
) {
  const rows = yield* Effect.orDie(sql`
    SELECT 1 AS found
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${id}
  `)
  if (rows.length === 0) return yield* absent
})

/** The tasks of an organization, newest first, one row more than the page holds. */
export const listTasks = (sql: SqlClient.SqlClient, org_id: OrgId, request: PageRequest<TaskId>) =>
  sql`
    SELECT ${sql.literal(columns)}
    FROM tasks
    WHERE org_id = ${org_id}
      ${beforeCursor(sql, "task_id", request.cursor)}
    ORDER BY task_id DESC
    LIMIT ${rowLimit(request)}
  `.pipe(Effect.flatMap(decodeTasks))

/** How many tasks the organization has. */
export const countTasks = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM tasks
    WHERE org_id = ${org_id}
  `.pipe(Effect.map((rows) => rows[0]?.count ?? 0))

/** Writes a new task. */
export const insertTask = (sql: SqlClient.SqlClient, org_id: OrgId, row: TaskRow) => sql`
  INSERT INTO tasks (
    org_id, task_id, name, instructions, input_schema, answer_schema, input_schema_digest, answer_schema_digest, provider, revision,
    live_release_id, created_at, created_by_id, created_by_name
  )
  VALUES (
    ${org_id}, ${row.task_id}, ${row.name}, ${row.instructions}, ${JSON.stringify(row.input_schema)},
    ${JSON.stringify(row.answer_schema)}, ${row.input_schema_digest}, ${row.answer_schema_digest}, ${JSON.stringify(row.provider)},
    ${row.revision}, ${row.live_release_id}, ${toDate(row.created_at)}, ${row.created_by_id}, ${row.created_by_name}
  )
`

/** Writes what a change may change. */
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
    revision = ${row.revision}
  WHERE org_id = ${org_id}
    AND task_id = ${row.task_id}
`

const SchemasRow = Schema.Struct({ input_schema: JsonSchema, answer_schema: JsonSchema })

const decodeSchemas = Schema.decodeUnknownEffect(Schema.Array(SchemasRow), { disableChecks: true })

/** The schemas of a task that is known to be there. */
export const readSchemas = (sql: SqlClient.SqlClient, org_id: OrgId, id: TaskId) =>
  sql`
    SELECT input_schema, answer_schema
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${id}
  `.pipe(Effect.flatMap(decodeSchemas), Effect.map(Arr.getUnsafe(0)), Effect.orDie)
