import { Array as Arr, Context, DateTime, Duration, Effect, Layer, Schema, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { transition } from "../../domain/approvals/ApprovalState.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { reportFailure, RETRY_MILLIS } from "../concurrency/Worker.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { isCluster } from "../store/Cluster.ts"
import { atomic } from "../store/transaction.ts"
import { rowsOf } from "../store/rows.ts"
import { layerDueWorker } from "../store/layerDueWorker.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { Spans } from "../telemetry/Spans.ts"
import { type PendingTransition, recordTransitions } from "./Approvals/recordTransitions.ts"
import { stateOf } from "./approvalRows.ts"
import {
  type DueCursor,
  findDueOrganizations,
  firstDueCursor,
  lockDueApprovals
} from "./Approvals/transitionRows.ts"
import { Claims, DEADLINES_WORKER } from "./Claims.ts"
import { SessionEvents } from "./SessionEvents.ts"

/** The result of one run. */
export interface DeadlineRun {
  /** Approvals that were warned, escalated or expired, and executions whose outcome became unknown. */
  readonly transitioned: number
  /** Time until the next approval or lease is due, or failed ones are retried; zero if some are locked, null if there is none. */
  readonly next_due_in: Duration.Duration | null
}

/** Organizations whose approvals are transitioned concurrently, if each has transactions of its own. */
const ORGANIZATION_CONCURRENCY = 4

/** The pause after an organization's transitions failed. */
const failedRetry = Duration.millis(RETRY_MILLIS)

/** Batch size, concurrency and pauses of the deadline worker. */
export interface DeadlineOptions {
  /** Approvals that one transaction transitions. Default 1,000. */
  readonly batch: number
  /** Concurrent batches if more than one is due: the database commits one while the next is computed. Default 2. */
  readonly concurrency: number
  /**
   * The longest pause, because an earlier deadline may have been added meanwhile, by any replica. Default 1 s: no
   * approval is due sooner than 750 ms after its request (the warning of the shortest window), so none is more than a
   * quarter of a second late.
   */
  readonly maxSleep: Duration.Duration
  /** The pause while due approvals are locked by other transactions. Default 50 ms. */
  readonly lockedRetry: Duration.Duration
}

const defaults: DeadlineOptions = {
  batch: 1_000,
  concurrency: 2,
  maxSleep: Duration.seconds(1),
  lockedRetry: Duration.millis(50)
}

/**
 * Enforces the deadlines of approvals, and the leases of claims. All state is in the database: every replica can run it, exactly one replica
 * transitions each due approval, and a replica that was down catches up.
 */
export class Deadlines extends Context.Service<
  Deadlines,
  {
    /** Transitions every approval and every execution that is due. */
    readonly runOnce: Effect.Effect<DeadlineRun>
  }
>()("countersign/server/approvals/Deadlines") {
  static readonly layer = (options: Partial<DeadlineOptions> = {}) =>
    Layer.effect(Deadlines, make({ ...defaults, ...options }))

  /** The worker `approval_deadlines`: runs at the next deadline, and every `maxSleep` until then. */
  static readonly layerWorker = (
    options: Partial<Pick<DeadlineOptions, "maxSleep" | "lockedRetry">> = {}
  ): Layer.Layer<never, never, Deadlines | StoreClock> => {
    const { lockedRetry, maxSleep } = { ...defaults, ...options }
    const pauseBefore = (next_due_in: Duration.Duration | null): Duration.Duration => {
      if (next_due_in === null) return maxSleep
      return Duration.isZero(next_due_in) ? lockedRetry : Duration.min(next_due_in, maxSleep)
    }
    return layerDueWorker({
      name: DEADLINES_WORKER,
      runOnce: Effect.gen(function* () {
        const { next_due_in, transitioned } = yield* (yield* Deadlines).runOnce
        return { counts: { transitioned }, next: pauseBefore(next_due_in) }
      }),
      every: maxSleep
    })
  }
}

const make = Effect.fnUntraced(function* ({ batch: batchSize, concurrency }: DeadlineOptions) {
  const sql = yield* SqlClient.SqlClient
  const atomically = atomic(sql)
  const clock = yield* StoreClock
  const clustered = yield* isCluster(sql)
  const claims = yield* Claims
  const deps = {
    sql,
    events: yield* SessionEvents,
    notifications: yield* Notifications,
    spans: yield* Spans
  }

  /** Serializes the claims of concurrent batches: each continues at the cursor of the one before. */
  const claimPermit = yield* Semaphore.make(1)

  const runBatch = (progress: { cursor: DueCursor }, org_id?: OrgId) =>
    Effect.gen(function* () {
      // Publishing may wait for a destination's lock. A lock time-out would roll back the whole batch.
      yield* sql`SET LOCAL lock_timeout = 0`
      const now = yield* clock.now
      const rows = yield* claimPermit.withPermits(1)(
        Effect.tap(
          Effect.suspend(() => lockDueApprovals(sql, now, progress.cursor, batchSize, org_id)),
          (claimed) =>
            Effect.sync(() => {
              progress.cursor = claimed.at(-1) ?? progress.cursor
            })
        )
      )
      const pending = rows.flatMap((row): ReadonlyArray<PendingTransition> => {
        const { transitions } = transition(stateOf(row), { _tag: "Time" }, now)
        return Arr.isReadonlyArrayNonEmpty(transitions) ? [{ row, transitions }] : []
      })
      if (Arr.isArrayNonEmpty(pending)) yield* recordTransitions(deps, pending, now)
      return { transitioned: pending.length, more: rows.length === batchSize }
    }).pipe(atomically)

  const nextDueIn = Effect.gen(function* () {
    const row = yield* dueRows.first(sql`
      SELECT next_due_at
      FROM approvals
      WHERE next_due_at IS NOT NULL
      ORDER BY next_due_at
      LIMIT 1
    `)
    if (row === undefined) return null
    const now = yield* clock.now
    return Duration.max(Duration.zero, DateTime.distance(now, row.next_due_at))
  }).pipe(Effect.orDie)

  const runBatches = Effect.fnUntraced(function* (progress: { cursor: DueCursor }, org_id?: OrgId) {
    for (let transitioned = 0; ;) {
      const batch = yield* runBatch(progress, org_id)
      transitioned += batch.transitioned
      if (!batch.more) return transitioned
    }
  })

  /** Batches of all organizations. A row that cannot be read rolls back its whole batch. */
  const runShared = Effect.gen(function* () {
    const progress = { cursor: firstDueCursor }
    const first = yield* runBatch(progress)
    const others = first.more
      ? yield* Effect.replicateEffect(runBatches(progress), concurrency, { concurrency })
      : []
    return { transitioned: others.reduce((sum, count) => sum + count, first.transitioned), isComplete: true }
  })

  /** Batches of each organization, on a cluster on its node. One that fails does not stop the others. */
  const runApart = Effect.gen(function* () {
    const organizations = yield* Effect.orDie(findDueOrganizations(sql, yield* clock.now, batchSize))
    const counts = yield* Effect.forEach(
      organizations,
      (org_id) =>
        Effect.catchCause(runBatches({ cursor: firstDueCursor }, org_id), (cause) =>
          reportFailure(DEADLINES_WORKER, `Could not enforce the deadlines of ${org_id}; retrying`, cause)
        ),
      { concurrency: ORGANIZATION_CONCURRENCY }
    )
    return {
      transitioned: counts.reduce<number>((sum, count) => sum + (count ?? 0), 0),
      isComplete: !counts.includes(undefined)
    }
  })

  const runApprovals = Effect.gen(function* () {
    // One read of an index, and no transaction, unless an approval is due: an idle replica repeats this all day.
    const next_due_in = yield* nextDueIn
    if (next_due_in === null || !Duration.isZero(next_due_in)) return { transitioned: 0, next_due_in }
    const run = yield* clustered
      ? runApart
      : // What fails again is logged with its organization.
        Effect.catchCause(runShared, (cause) =>
          Effect.andThen(Effect.logDebug("A batch of deadlines failed", cause), runApart)
        )
    const next = yield* nextDueIn
    return {
      transitioned: run.transitioned,
      next_due_in: run.isComplete || next === null ? next : Duration.max(next, failedRetry)
    }
  })

  const runOnce = Effect.gen(function* () {
    // A lease ends also if the approvals cannot be read.
    const run = yield* Effect.exit(runApprovals)
    const leases = yield* claims.expireLeases
    const approvals = yield* run
    return {
      transitioned: approvals.transitioned + leases.expired,
      next_due_in: earlier(approvals.next_due_in, leases.next_due_in)
    }
  }).pipe(Effect.withSpan("Deadlines.runOnce"))

  return Deadlines.of({ runOnce })
})

const earlier = (one: Duration.Duration | null, other: Duration.Duration | null) =>
  one === null || other === null ? (one ?? other) : Duration.min(one, other)

const dueRows = rowsOf(Schema.Struct({ next_due_at: Schema.DateTimeUtcFromDate }))
