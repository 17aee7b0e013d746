import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import type { TraceId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Audit } from "../../identity/Audit.ts"
import type { StoredUsage } from "../../identity/StoredUsage.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { countDeleted } from "../countDeleted.ts"
import { deleteRuns, withDatasetLockIfNeeded } from "../deleteRuns.ts"
import { findRun } from "./rows.ts"

/** The services that a deletion needs. */
export interface RemovalDeps {
  readonly sql: SqlClient.SqlClient
  readonly audit: Audit["Service"]
  readonly clock: StoreClock["Service"]
  readonly usage: StoredUsage["Service"]
}

/**
 * Deletes a run with the feedback on it, and the examples that corrections of it became. The run goes last: a deletion
 * that is interrupted has deleted some of its feedback, and can be requested again.
 */
export const removeRun = Effect.fnUntraced(function* (
  { audit, clock, sql, usage }: RemovalDeps,
  principal: Principal,
  trace_id: TraceId
) {
  const { org_id } = principal
  const run = yield* findRun(sql, org_id, trace_id)
  if (run === undefined) return yield* notFound("run")
  const { task_id } = run
  const selection = { org_id, task_id, trace_ids: [trace_id] }
  const options = { erasesExamples: true, now: yield* clock.now }
  const earlier = { feedback: 0, examples: 0 }
  for (;;) {
    const deleted = yield* withDatasetLockIfNeeded(
      sql,
      selection,
      Effect.fnUntraced(function* (hasLock) {
        const batch = yield* deleteRuns(sql, usage, selection, options, hasLock)
        if (batch !== undefined && batch.runs > 0) {
          yield* audit.record(principal, "run.deleted", trace_id, {
            task_id,
            feedback: earlier.feedback + batch.feedback,
            examples: earlier.examples + batch.examples
          })
        }
        return batch
      })
    )
    yield* countDeleted("request", { ...deleted })
    if (!deleted.more) return deleted.runs === 0 ? yield* notFound("run") : undefined
    earlier.feedback += deleted.feedback
    earlier.examples += deleted.examples
  }
})
