import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../api/Authorization.ts"
import type { PageRequest } from "../api/Pagination.ts"
import { ComparisonUnfinished, NotFound } from "../api/Problems.ts"
import { type ComparisonId, ReleaseId, type TaskId } from "../domain/Ids.ts"
import type { Release } from "../domain/Task.ts"
import { Audit } from "./Audit.ts"
import { findComparison } from "./Comparisons/rows.ts"
import { atomic } from "./Database.ts"
import { type Page, pageOf } from "./Page.ts"
import { insertRelease, listReleases, releaseOf } from "./Releases/rows.ts"
import { StoreClock } from "./StoreClock.ts"
import { findTask, hasTask, noTask } from "./Tasks/rows.ts"

/** What tasks' runs are answered by, and were before. */
export class Releases extends Context.Service<
  Releases,
  {
    readonly list: (
      task_id: TaskId,
      request: PageRequest<ReleaseId>
    ) => Effect.Effect<Page<Release, ReleaseId>, NotFound, Authorized<"tasks.read">>
    /**
     * Makes the candidate of a finished comparison live. Where it is live already, that release is the answer. The task's working copy
     * becomes what was released, unless it was changed since the comparison began.
     */
    readonly create: (
      task_id: TaskId,
      comparison_id: ComparisonId
    ) => Effect.Effect<Release, NotFound | ComparisonUnfinished, Authorized<"tasks.write">>
  }
>()("countersign/server/Releases") {
  static readonly layer = Layer.effect(
    Releases,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const clock = yield* StoreClock

      return Releases.of({
        list: Effect.fn("Releases.list")(function* (task_id, request) {
          const { org_id } = yield* Authorized("tasks.read")
          const rows = yield* Effect.orDie(listReleases(sql, org_id, task_id, request))
          if (rows.length === 0 && !(yield* hasTask(sql, org_id, task_id))) return yield* noTask
          return pageOf(request, rows, (release) => release.id)
        }),
        create: Effect.fn("Releases.create")(function* (task_id, comparison_id) {
          const principal = yield* Authorized("tasks.write")
          const { actor, org_id } = principal
          const now = yield* clock.now
          return yield* atomically(
            Effect.gen(function* () {
              // Of two releases at once one follows the other.
              const task = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
              const found = yield* findComparison(sql, org_id, comparison_id)
              if (Option.isNone(found) || found.value.task_id !== task_id) return yield* noComparison
              const comparison = found.value
              if (comparison.status !== "completed") {
                return yield* new ComparisonUnfinished({
                  detail: `${comparison.compared} of ${comparison.example_count} examples are compared; release it when all are`
                })
              }
              const live = yield* releaseOf(sql, org_id, task.live_release_id)
              if (live.comparison_id === comparison_id) return live
              const release: Release = {
                id: yield* ReleaseId.generate,
                task_id,
                instructions: comparison.candidate_instructions,
                provider: comparison.candidate_provider,
                dataset_id: comparison.candidate_dataset_id,
                comparison_id,
                created_at: now,
                created_by: actor
              }
              yield* insertRelease(sql, org_id, release)
              const untouched = task.revision === comparison.task_revision
              yield* sql`
                UPDATE tasks
                SET
                  live_release_id = ${release.id},
                  instructions = ${untouched ? release.instructions : task.instructions},
                  provider = ${JSON.stringify(untouched ? release.provider : task.provider)}
                WHERE org_id = ${org_id}
                  AND task_id = ${task_id}
              `
              yield* audit.record(principal, "release.created", release.id, { task_id, comparison_id })
              return release
            })
          )
        })
      })
    })
  )
}

const noComparison = Effect.fail(new NotFound({ detail: "There is no such comparison of this task" }))
