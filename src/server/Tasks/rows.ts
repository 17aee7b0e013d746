import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { NotFound } from "../../api/Problems.ts"
import type { OrgId, TaskId } from "../../domain/Ids.ts"

/** What an unknown task is answered with, another organization's included. */
export const noTask = Effect.fail(new NotFound({ detail: "There is no such task in this organization" }))

/** Whether the organization has this task. */
export const hasTask = (sql: SqlClient.SqlClient, org_id: OrgId, id: TaskId) =>
  sql`
    SELECT 1 AS one
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${id}
  `.pipe(
    Effect.map((rows) => rows.length > 0),
    Effect.orDie
  )
