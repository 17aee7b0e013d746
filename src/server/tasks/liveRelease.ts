import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { DatasetId, type OrgId, ReleaseId, type TaskId } from "../../domain/Ids.ts"
import { Provider } from "../../domain/tasks/Provider.ts"
import { rowsOf } from "../store/rows.ts"

const LiveRelease = Schema.Struct({
  release_id: ReleaseId,
  instructions: Schema.String,
  provider: Provider,
  dataset_id: Schema.NullOr(DatasetId)
})
export type LiveRelease = typeof LiveRelease.Type

const liveRows = rowsOf(LiveRelease)

/** Reads the live release of a task. Undefined if the task was deleted. */
export const readLiveRelease = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  liveRows.first(sql`
    SELECT releases.release_id, releases.instructions, releases.provider, releases.dataset_id
    FROM tasks
      JOIN releases ON releases.org_id = tasks.org_id AND releases.release_id = tasks.live_release_id
    WHERE tasks.org_id = ${org_id}
      AND tasks.task_id = ${task_id}
  `)
