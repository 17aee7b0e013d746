import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { NewCanary } from "../../api/Canaries.ts"
import {
  type CandidateLost,
  type ComparisonUnfinished,
  type LiveReleaseChanged,
  NotFound
} from "../../api/Problems.ts"
import { type OrgId, ReleaseId, type TaskId } from "../../domain/Ids.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import type { Canary, CanaryArm } from "../../domain/tasks/Canary.ts"
import { positiveShare, scoreMean } from "../../domain/tasks/FeedbackQuality.ts"
import type { Release } from "../../domain/tasks/Task.ts"
import {
  alwaysValidDifference,
  independentDifference,
  type Trials
} from "../../domain/tasks/wilsonInterval.ts"
import { TimestampFromDate, toDate } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { chooseCandidate, requireDataset } from "./Releases/chooseCandidate.ts"
import { getRelease, insertRelease } from "./Releases/rows.ts"
import { findTask } from "./Tasks/rows.ts"

/** Canaries: releases that answer a share of a task's runs. At most one per task. */
export class Canaries extends Context.Service<
  Canaries,
  {
    /** Returns the task's canary with the feedback on both releases. */
    readonly get: (task_id: TaskId) => Effect.Effect<Canary, NotFound, Authorized<"tasks.read">>
    /** Lets a comparison's candidate answer a share of the runs, or changes the share of the canary of that comparison. */
    readonly start: (
      task_id: TaskId,
      input: NewCanary
    ) => Effect.Effect<
      Canary,
      NotFound | ComparisonUnfinished | LiveReleaseChanged | CandidateLost,
      Authorized<"tasks.write">
    >
    /** Lets the live release answer all runs again. */
    readonly stop: (task_id: TaskId) => Effect.Effect<void, NotFound, Authorized<"tasks.write">>
  }
>()("countersign/server/tasks/Canaries") {
  static readonly layer = Layer.effect(
    Canaries,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const clock = yield* StoreClock
      const secrets = yield* KnownSecrets

      /** Reads the canary of a task that has one. */
      const read = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId) {
        const row = yield* canaryRows.first(sql`
          SELECT canary_release_id, canary_share, canary_started_at, live_release_id
          FROM tasks
          WHERE org_id = ${org_id}
            AND task_id = ${task_id}
            AND canary_release_id IS NOT NULL
        `)
        if (row === undefined) return yield* noCanary
        const { canary_release_id, canary_share, canary_started_at, live_release_id } = row
        const since = DateTime.formatIsoDateUtc(canary_started_at)
        const counts = yield* countRows.all(sql`
          SELECT
            release_id, sum(positive)::int AS positive, sum(neutral)::int AS neutral, sum(negative)::int AS negative,
            (sum(value_excess) / 1000000)::float8 AS value_excess
          FROM feedback_counts
          WHERE org_id = ${org_id}
            AND task_id = ${task_id}
            AND day >= ${since}::text::date
            AND release_id = ANY(${textArray([canary_release_id, live_release_id])})
          GROUP BY release_id
        `)
        const armOf = (release_id: ReleaseId): CanaryArm => {
          const found = counts.find((count) => count.release_id === release_id)
          const scores = found ?? { positive: 0, neutral: 0, negative: 0, value_excess: 0 }
          const { negative, neutral, positive } = scores
          return {
            positive,
            neutral,
            negative,
            release_id,
            score_mean: scoreMean(scores),
            positive_share: positiveShare(scores)
          }
        }
        const arms = { canary: armOf(canary_release_id), live: armOf(live_release_id) }
        const canary: Canary = {
          release: yield* getRelease(sql, org_id, canary_release_id),
          share: canary_share,
          started_at: canary_started_at,
          ...arms,
          difference:
            arms.canary.positive_share === null || arms.live.positive_share === null
              ? null
              : differenceOf(trialsOf(arms.canary), trialsOf(arms.live))
        }
        return canary
      })

      return Canaries.of({
        get: Effect.fn("Canaries.get")(function* (task_id) {
          const { org_id } = yield* Authorized("tasks.read")
          return yield* read(org_id, task_id)
        }, dieOnDatabaseError),
        start: Effect.fn("Canaries.start")(function* (task_id, input) {
          const principal = yield* Authorized("tasks.write")
          const { actor, org_id } = principal
          const { comparison_id, share } = input
          const now = yield* clock.now
          const forced =
            input.force === true && input.reason !== undefined
              ? { force: true, reason: redactText(input.reason, yield* secrets.forOrg(org_id)) }
              : {}
          return yield* atomically(
            Effect.gen(function* () {
              const task = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
              const live = yield* getRelease(sql, org_id, task.live_release_id)
              const current =
                task.canary_release_id === null
                  ? undefined
                  : yield* getRelease(sql, org_id, task.canary_release_id)
              if (current?.comparison_id === comparison_id) {
                yield* sql`
                  UPDATE tasks
                  SET canary_share = ${share}
                  WHERE org_id = ${org_id}
                    AND task_id = ${task_id}
                `
                yield* audit.record(principal, "canary.changed", current.id, { task_id, share })
                return yield* read(org_id, task_id)
              }
              const comparison = yield* chooseCandidate(sql, org_id, task, live, input)
              const release: Omit<Release, "number"> = {
                id: yield* ReleaseId.generate,
                task_id,
                instructions: comparison.candidate_instructions,
                provider: comparison.candidate_provider,
                dataset_id: comparison.candidate_dataset_id,
                comparison_id,
                restored_release_id: null,
                created_at: now,
                created_by: actor
              }
              yield* requireDataset(sql, org_id, release.dataset_id)
              yield* insertRelease(sql, org_id, release, live.id)
              yield* sql`
                UPDATE tasks
                SET canary_release_id = ${release.id}, canary_share = ${share}, canary_started_at = ${toDate(now)}
                WHERE org_id = ${org_id}
                  AND task_id = ${task_id}
              `
              yield* audit.record(principal, "canary.started", release.id, {
                task_id,
                comparison_id,
                share,
                ...forced
              })
              return yield* read(org_id, task_id)
            })
          )
        }, dieOnDatabaseError),
        stop: Effect.fn("Canaries.stop")(function* (task_id) {
          const principal = yield* Authorized("tasks.write")
          const { org_id } = principal
          yield* atomically(
            Effect.gen(function* () {
              const { canary_release_id } = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
              if (canary_release_id === null) return yield* noCanary
              yield* sql`
                UPDATE tasks
                SET canary_release_id = NULL, canary_share = NULL, canary_started_at = NULL
                WHERE org_id = ${org_id}
                  AND task_id = ${task_id}
              `
              yield* audit.record(principal, "canary.stopped", canary_release_id, { task_id })
            })
          )
        }, dieOnDatabaseError)
      })
    })
  )
}

const differenceOf = (canary: Trials, live: Trials): Canary["difference"] => {
  const { high, low } = alwaysValidDifference(canary, live)
  return { ...independentDifference(canary, live), always_low: low, always_high: high }
}

const trialsOf = ({ negative, neutral, positive }: CanaryArm) => ({
  count: positive,
  of: positive + neutral + negative
})

const canaryRows = rowsOf(
  Schema.Struct({
    canary_release_id: ReleaseId,
    canary_share: Schema.Finite,
    canary_started_at: TimestampFromDate,
    live_release_id: ReleaseId
  })
)

const countRows = rowsOf(
  Schema.Struct({
    release_id: ReleaseId,
    positive: Schema.Int,
    neutral: Schema.Int,
    negative: Schema.Int,
    value_excess: Schema.Finite
  })
)

const noCanary = Effect.fail(new NotFound({ detail: "The task has no canary." }))
