import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import type { DatasetBusy, NotFound } from "../../api/Problems.ts"
import type { RunFilter } from "../../api/Runs.ts"
import type { RunId, TaskId, TraceId } from "../../domain/Ids.ts"
import type { RunRecord } from "../../domain/tasks/Run.ts"
import { Audit } from "../identity/Audit.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { requireTask } from "./requireTask.ts"
import { listRuns } from "./RunLog/listRuns.ts"
import { removeRun } from "./RunLog/removeRun.ts"
import { dismissReview, findRun } from "./RunLog/rows.ts"

/** The logged runs, for reviewers. */
export class RunLog extends Context.Service<
  RunLog,
  {
    /** Lists the runs of a task, newest first, or of all tasks if `task_id` is undefined. */
    readonly list: (
      task_id: TaskId | undefined,
      request: PageRequest<RunId> & RunFilter
    ) => Effect.Effect<Page<RunRecord, RunId>, NotFound, Authorized<"runs.read">>
    /** Returns one run. */
    readonly get: (trace_id: TraceId) => Effect.Effect<RunRecord, NotFound, Authorized<"runs.read">>
    /** Deletes a run with the feedback on it, and the examples that corrections of it became. */
    readonly remove: (
      trace_id: TraceId
    ) => Effect.Effect<void, NotFound | DatasetBusy, Authorized<"data.delete">>
    /** Removes a run from the review queue of its task. Idempotent. */
    readonly dismissReview: (trace_id: TraceId) => Effect.Effect<void, NotFound, Authorized<"feedback.write">>
  }
>()("countersign/server/tasks/RunLog") {
  static readonly layer = Layer.effect(
    RunLog,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const removalDeps = { sql, audit, clock: yield* StoreClock, usage: yield* StoredUsage }
      return RunLog.of({
        list: Effect.fn("RunLog.list")(function* (task_id, request) {
          const { org_id } = yield* Authorized("runs.read")
          if (task_id !== undefined) yield* requireTask(sql, org_id, task_id)
          return yield* listRuns(sql, org_id, task_id, request)
        }, dieOnDatabaseError),
        get: Effect.fn("RunLog.get")(function* (trace_id) {
          const { org_id } = yield* Authorized("runs.read")
          return (yield* findRun(sql, org_id, trace_id)) ?? (yield* notFound("run"))
        }, dieOnDatabaseError),
        remove: Effect.fn("RunLog.remove")(function* (trace_id) {
          yield* removeRun(removalDeps, yield* Authorized("data.delete"), trace_id)
        }, dieOnDatabaseError),
        dismissReview: Effect.fn("RunLog.dismissReview")(function* (trace_id) {
          const principal = yield* Authorized("feedback.write")
          yield* atomically(
            Effect.gen(function* () {
              const run = yield* dismissReview(sql, principal.org_id, trace_id)
              if (run === undefined) return yield* notFound("run")
              if (!run.awaited_review) return
              yield* audit.record(principal, "run.review_dismissed", trace_id, { task_id: run.task_id })
            })
          )
        }, dieOnDatabaseError)
      })
    })
  )
}
