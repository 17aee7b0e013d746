import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { MAX_HISTORY, type ReleaseAgreement } from "../../api/console/AgreementHistory.ts"
import type { NotFound } from "../../api/Problems.ts"
import { ComparisonId, DatasetId, type OrgId, ReleaseId, type TaskId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { rowsOf } from "../store/rows.ts"
import { requireTask } from "../tasks/requireTask.ts"
import { Provider } from "../../domain/tasks/Provider.ts"

/** How the agreement of a task's releases developed. */
export class AgreementHistory extends Context.Service<
  AgreementHistory,
  {
    /** Returns the newest releases of a task, oldest first. */
    readonly read: (
      task_id: TaskId
    ) => Effect.Effect<ReadonlyArray<ReleaseAgreement>, NotFound, Authorized<"tasks.read">>
  }
>()("countersign/server/console/AgreementHistory") {
  static readonly layer = Layer.effect(
    AgreementHistory,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return AgreementHistory.of({
        read: Effect.fn("AgreementHistory.read")(function* (task_id) {
          const { org_id } = yield* Authorized("tasks.read")
          yield* requireTask(sql, org_id, task_id)
          const rows = yield* Effect.orDie(releaseRows.all(historyStatement(sql, org_id, task_id)))
          return rows.map(toAgreement).toReversed()
        })
      })
    })
  )
}

const ReleaseRow = Schema.Struct({
  release_id: ReleaseId,
  created_at: TimestampFromDate,
  provider: Provider,
  is_rollback: Schema.Boolean,
  comparison_id: Schema.NullOr(ComparisonId),
  dataset_id: Schema.NullOr(DatasetId),
  both: Schema.NullOr(Schema.Int),
  candidate_only: Schema.NullOr(Schema.Int),
  live_only: Schema.NullOr(Schema.Int),
  neither: Schema.NullOr(Schema.Int)
})

const releaseRows = rowsOf(ReleaseRow)

/** The newest releases of a task, newest first, with the counts of their comparisons. A rollback has the counts of the release that it restored. */
export const historyStatement = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) => sql`
  SELECT
    releases.release_id, releases.created_at, releases.provider,
    releases.restored_release_id IS NOT NULL AS is_rollback,
    comparisons.comparison_id, comparisons.dataset_id,
    (comparisons.tally ->> 'both')::int AS both,
    (comparisons.tally ->> 'candidate_only')::int AS candidate_only,
    (comparisons.tally ->> 'live_only')::int AS live_only,
    (comparisons.tally ->> 'neither')::int AS neither
  FROM (
    SELECT org_id, release_id, created_at, provider, comparison_id, restored_release_id
    FROM releases
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
    ORDER BY release_id DESC
    LIMIT ${MAX_HISTORY}::int
  ) AS releases
    LEFT JOIN releases AS restored
      ON restored.org_id = releases.org_id AND restored.release_id = releases.restored_release_id
    LEFT JOIN comparisons
      ON comparisons.org_id = releases.org_id
      AND comparisons.comparison_id = coalesce(releases.comparison_id, restored.comparison_id)
  ORDER BY releases.release_id DESC
`

const toAgreement = (row: typeof ReleaseRow.Type): ReleaseAgreement => {
  const { both, candidate_only, comparison_id, created_at, dataset_id, is_rollback, live_only, neither } = row
  const agreed = { candidate: (both ?? 0) + (candidate_only ?? 0), live: (both ?? 0) + (live_only ?? 0) }
  const compared = agreed.candidate + (live_only ?? 0) + (neither ?? 0)
  return {
    release_id: row.release_id,
    created_at,
    model: row.provider.model,
    is_rollback,
    comparison:
      comparison_id === null || dataset_id === null
        ? null
        : {
            id: comparison_id,
            dataset_id,
            compared,
            agreement: compared === 0 ? null : agreed.candidate / compared,
            live_agreement: compared === 0 ? null : agreed.live / compared
          }
  }
}
