import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { DatasetId, OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { hasRow, rowsOf } from "../../store/rows.ts"

/** A release of a reviewer, with the dataset version of its examples; null: none. */
export interface MeasuredReviewer {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly release_id: ReleaseId
  readonly live_dataset_id: DatasetId | null
}

const decidedRows = rowsOf(
  Schema.Struct({ band: Schema.Int, answer: Schema.Literals(["approve", "reject"]) })
)

/** The bands of a tool in which a release has decided since it was restored, and how: at most two for each band. */
export const readDecided = (
  sql: SqlClient.SqlClient,
  { live_dataset_id, org_id, release_id, task_id }: MeasuredReviewer,
  tool: string
) =>
  decidedRows.all(sql`
    SELECT counted.band, kind.answer
    FROM (
      SELECT DISTINCT band
      FROM reviewer_counts
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND release_id = ${release_id}
        AND dataset_id = ${live_dataset_id ?? ""}
        AND tool = ${tool}
    ) AS counted
      CROSS JOIN unnest(ARRAY['approve', 'reject']) AS kind (answer)
    WHERE EXISTS (
      SELECT FROM reviewer_answers AS decided
      WHERE decided.org_id = ${org_id}
        AND decided.task_id = ${task_id}
        AND decided.release_id = ${release_id}
        AND decided.dataset_id IS NOT DISTINCT FROM ${live_dataset_id}
        AND decided.tool = ${tool}
        AND decided.band = counted.band
        AND decided.answer = kind.answer
        AND decided.mode = 'decided'
        AND decided.created_at >= coalesce(
          (SELECT restored_at FROM reviewers WHERE org_id = ${org_id} AND task_id = ${task_id}),
          '-infinity'
        )
    )
  `)

/** Whether a reviewer has decided anything since it was restored: otherwise it has no right to lose. */
export const hasDecided = (
  sql: SqlClient.SqlClient,
  { org_id, task_id }: Pick<MeasuredReviewer, "org_id" | "task_id">
): Effect.Effect<boolean> =>
  Effect.orDie(
    hasRow(sql`
      SELECT 1 AS decided
      FROM reviewers
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND EXISTS (
          SELECT FROM reviewer_answers AS decided
          WHERE decided.org_id = ${org_id}
            AND decided.task_id = ${task_id}
            AND decided.mode = 'decided'
            AND decided.created_at >= coalesce(restored_at, '-infinity')
        )
    `)
  )
