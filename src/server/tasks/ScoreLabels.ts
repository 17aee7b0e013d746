import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { LimitReached } from "../../api/Problems.ts"
import type { OrgId, TaskId } from "../../domain/Ids.ts"
import { MAX_SCORE_LABELS } from "../../domain/tasks/Feedback.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { hasRow } from "../store/rows.ts"

/** Labels in memory that are known to be stored. */
const MAX_CACHED_LABELS = 10_000

/**
 * The labels of the feedback on each task's runs. Their number is limited, because feedback is counted by label: with a
 * label of its own for each feedback, a count would read as many rows. Concurrent requests can exceed the limit by a few.
 */
export class ScoreLabels extends Context.Service<
  ScoreLabels,
  {
    /** Stores a label, unless the task has it already or has too many. */
    readonly require: (org_id: OrgId, task_id: TaskId, label: string) => Effect.Effect<void, LimitReached>
  }
>()("countersign/server/tasks/ScoreLabels") {
  static readonly layer = Layer.effect(
    ScoreLabels,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const stored = new LruCache<true>({ entries: MAX_CACHED_LABELS, weight: MAX_CACHED_LABELS })
      return ScoreLabels.of({
        require: Effect.fnUntraced(function* (org_id, task_id, label) {
          const name = JSON.stringify([org_id, task_id, label])
          if (stored.get(name) === true) return
          const rows = yield* Effect.orDie(sql`
            WITH found AS (
              SELECT score_label
              FROM feedback_labels
              WHERE org_id = ${org_id}
                AND task_id = ${task_id}
            ), added AS (
              INSERT INTO feedback_labels (org_id, task_id, score_label)
              SELECT ${org_id}, ${task_id}, ${label}::text
              WHERE (SELECT count(*) FROM found) < ${MAX_SCORE_LABELS}
              ON CONFLICT DO NOTHING
              RETURNING 1
            )
            SELECT FROM found WHERE score_label = ${label}
            UNION ALL
            SELECT FROM added
          `)
          if (rows.length === 0 && !(yield* Effect.orDie(isStored(sql, org_id, task_id, label)))) {
            return yield* new LimitReached({
              detail: `The feedback on a task's runs can have at most ${MAX_SCORE_LABELS} different labels. Use one of these, or put the text into \`comment\`.`
            })
          }
          stored.set(name, true, 1)
        })
      })
    })
  )
}

/** Whether another request stored the label meanwhile. */
const isStored = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId, label: string) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM feedback_labels
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND score_label = ${label}
  `)
