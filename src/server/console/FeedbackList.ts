import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { type FeedbackRow, MAX_INPUT_START } from "../../api/console/FeedbackRows.ts"
import type { FeedbackFilter } from "../../api/Feedback.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { FeedbackId, type OrgId } from "../../domain/Ids.ts"
import { textArray } from "../store/pgArrays.ts"
import type { Page } from "../store/Pagination.ts"
import { rowsOf } from "../store/rows.ts"
import { Feedback } from "../tasks/Feedback.ts"

/** The stored size above which an input is not read for a list. It is compressed: its text may be a hundred times as long. */
const MAX_STORED_BYTES = 16 * 1024

/** The size of a run's texts above which its input is not read for a list, however well it is compressed. */
const MAX_RUN_BYTES = 128 * 1024

/** The rows of the console's feedback queue. */
export class FeedbackList extends Context.Service<
  FeedbackList,
  {
    /** Lists feedback with its task and the start of its run's input, newest first. */
    readonly list: (
      request: PageRequest<FeedbackId> & FeedbackFilter
    ) => Effect.Effect<Page<FeedbackRow, FeedbackId>, never, Authorized<"feedback.read">>
  }
>()("countersign/server/console/FeedbackList") {
  static readonly layer = Layer.effect(
    FeedbackList,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const feedback = yield* Feedback
      return FeedbackList.of({
        list: Effect.fn("FeedbackList.list")(function* (request) {
          const { org_id } = yield* Authorized("feedback.read")
          const { items, next_cursor } = yield* feedback.list(request)
          const runs = yield* readRuns(
            sql,
            org_id,
            items.map(({ id }) => id)
          )
          return {
            items: items.flatMap((record) => {
              const run = runs.get(record.id)
              // Feedback without its run is being deleted.
              return run === undefined ? [] : [{ ...record, ...run }]
            }),
            next_cursor
          }
        }, Effect.orDie)
      })
    })
  )
}

const runRows = rowsOf(
  Schema.Struct({
    feedback_id: FeedbackId,
    task_name: Schema.String,
    input_start: Schema.NullOr(Schema.String)
  })
)

/** Reads what rows show of the runs of feedback. */
const readRuns = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<FeedbackId>) =>
  Effect.map(
    runRows.all(runsStatement(sql, org_id, ids)),
    (rows) => new Map(rows.map(({ feedback_id, ...run }) => [feedback_id, run]))
  )

/** The statement that reads what rows show of the runs of feedback. */
export const runsStatement = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<FeedbackId>) => sql`
  SELECT
    feedback.feedback_id, tasks.name AS task_name,
    -- Both sizes are known without reading the input.
    CASE
      WHEN pg_column_size(runs.input) <= ${MAX_STORED_BYTES}::int AND runs.bytes <= ${MAX_RUN_BYTES}::int
      THEN left(runs.input::text, ${MAX_INPUT_START}::int)
    END AS input_start
  FROM feedback
    JOIN runs ON runs.org_id = feedback.org_id AND runs.trace_id = feedback.trace_id
    JOIN tasks ON tasks.org_id = feedback.org_id AND tasks.task_id = feedback.task_id
  WHERE feedback.org_id = ${org_id}
    AND feedback.feedback_id = ANY(${textArray(ids)})
`
