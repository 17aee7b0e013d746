import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { notFound } from "../../api/notFound.ts"
import type { OrgId, TaskId } from "../../domain/Ids.ts"

/** Fails with a 404 if the organization has no such task. `pointer` is the JSON pointer of the id, if the request's body contains it. */
export const requireTask = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: TaskId,
  pointer?: string
) {
  const rows = yield* Effect.orDie(sql`
    SELECT 1 AS found
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${id}
  `)
  if (rows.length === 0) return yield* notFound("task", pointer)
})

/**
 * The condition that the task of a row exists. Rows of a deleted task are deleted by a worker, and none of them is found
 * from the moment that the task was deleted.
 */
export const ofExistingTask = (
  sql: SqlClient.SqlClient,
  table: "comparisons" | "datasets" | "feedback" | "runs"
): Statement.Fragment => sql`EXISTS (
  SELECT 1
  FROM tasks
  WHERE tasks.org_id = ${sql(table)}.org_id
    AND tasks.task_id = ${sql(table)}.task_id
)`
