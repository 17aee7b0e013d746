import { Cause, Context, Deferred, Duration, Effect, Exit, Layer, Option, type Scope } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { ComparisonId } from "../../domain/Ids.ts"
import type { JsonSchema } from "../../domain/tasks/Task.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import { makeWorkerPool, renewLeaseEvery } from "../concurrency/Worker.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { isDatabaseUnavailable } from "../store/databaseErrors.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { type BatchContext, compareBatch, loadJob } from "./Comparisons/compareBatch.ts"
import { ExampleCompared } from "./Comparisons/ExampleCalls.ts"
import {
  claimComparison,
  countClaimable,
  failComparison,
  releaseLease,
  renewLease
} from "./Comparisons/lease.ts"
import { recordBatch } from "./Comparisons/recordBatch.ts"
import { type ComparisonRow, isCancelled } from "./Comparisons/rows.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { Providers } from "./Providers.ts"

/** Comparisons that one replica works on concurrently. */
const MAX_CONCURRENT = 4

/** How long a worker works on one comparison before it releases the lease, so that waiting comparisons get their share. */
const TIME_SLICE = Duration.seconds(30)

/** How often a replica polls for comparisons that its workers were not woken for. */
const POLL_INTERVAL = Duration.seconds(2)

/** How often the owner of a comparison checks whether it was cancelled, on any replica. */
const CANCELLATION_INTERVAL = Duration.seconds(1)

/** Pause of a worker after a failed run. */
const RETRY_DELAY = Duration.seconds(5)

/**
 * Consecutive attempts without a recorded batch after which a comparison fails: each may call a model for a batch of
 * examples. A crash of the replica counts as an attempt, so that an example cannot crash replicas endlessly.
 */
const MAX_ATTEMPTS = 8

/** Pause before the second attempt; each further one is twice as long, so that the attempts take some 20 minutes in all. */
const FIRST_BACKOFF = Duration.seconds(5)

/** Options of the comparison workers. */
export interface ComparisonRunsOptions {
  /** Lease duration: after a crash, another replica takes over when the lease expires. Renewed at a third of it. Default 15 s. */
  readonly lease?: Duration.Input
}

/** The result of one worker run. */
export interface ComparisonRun {
  readonly comparison_id: ComparisonId
  /** Examples compared in this run. */
  readonly compared: number
  readonly completed: boolean
}

/**
 * Runs the stored comparisons. Progress and ownership are stored in the database, so any replica can continue a comparison; after a crash at
 * most one batch of examples is answered a second time.
 */
export class ComparisonRuns extends Context.Service<
  ComparisonRuns,
  {
    /** Claims one comparison and works on it until it is finished or the time slice is over. None if no comparison is claimable. */
    readonly runOnce: Effect.Effect<Option.Option<ComparisonRun>>
    /** Wakes a worker of this replica. */
    readonly wake: Effect.Effect<void>
    /** Starts the workers of this replica, which run until the scope closes. */
    readonly startWorkers: Effect.Effect<void, never, Scope.Scope>
  }
>()("countersign/server/tasks/ComparisonRuns") {
  static readonly layer = (options: ComparisonRunsOptions = {}) =>
    Layer.effect(
      ComparisonRuns,
      Effect.gen(function* () {
        const lease = Duration.fromInputUnsafe(options.lease ?? "15 seconds")
        const sql = yield* SqlClient.SqlClient
        const atomically = atomic(sql)
        const usage = yield* StoredUsage
        const clock = yield* StoreClock
        const providers = yield* Providers
        const schemas = yield* CompiledSchemas
        const batchContext: BatchContext = { sql, providers, onCompared: yield* ExampleCompared }

        const compile = (schema: JsonSchema) => Effect.orDie(schemas.compile(schema))

        /** Completes `cancelled` when the comparison is cancelled. Does not end. */
        const watchCancellation = (row: ComparisonRow, cancelled: Deferred.Deferred<void>) =>
          Effect.gen(function* () {
            while (!(yield* isCancelled(sql, row))) yield* Effect.sleep(CANCELLATION_INTERVAL)
            yield* Deferred.succeed(cancelled, undefined)
            return yield* Effect.never
          })

        const work = Effect.fnUntraced(function* (claimed: ComparisonRow, cancelled: Effect.Effect<void>) {
          const job = yield* loadJob(sql, claimed, compile)
          const sliceEnd = (yield* monotonicNow) + Duration.toMillis(TIME_SLICE)
          const isTimeSliceOver = Effect.map(monotonicNow, (now) => now >= sliceEnd)
          let row = claimed
          while (row.status === "running" && !(yield* isTimeSliceOver)) {
            const batch = yield* compareBatch(batchContext, job, row, { isTimeSliceOver, cancelled })
            const recorded = yield* atomically(recordBatch(sql, clock, batch, lease))
            if (recorded === undefined) break
            usage.add(row.org_id, { bytes: recorded.bytes })
            row = { ...batch.row, status: recorded.status }
          }
          return row
        })

        const runOnce = Effect.gen(function* () {
          const claimed = yield* Effect.orDie(claimComparison(sql, clock, lease))
          if (claimed === undefined) return Option.none()
          const { attempts, comparison_id } = claimed
          if (attempts > MAX_ATTEMPTS) {
            yield* Effect.logError(`Comparison ${comparison_id} failed after ${MAX_ATTEMPTS} attempts`)
            yield* Effect.orDie(failComparison(sql, claimed, FAILURE, yield* clock.now))
            return Option.some({ comparison_id, compared: 0, completed: false })
          }
          const cancelled = yield* Deferred.make<void>()
          const row = yield* work(claimed, Deferred.await(cancelled)).pipe(
            Effect.raceFirst(
              Effect.as(
                renewLeaseEvery(Duration.times(lease, 1 / 3), renewLease(sql, clock, claimed, lease)),
                claimed
              )
            ),
            Effect.raceFirst(watchCancellation(claimed, cancelled)),
            // Also on shutdown, so that the next owner need not wait for the lease to expire.
            Effect.onExit((exit) =>
              Effect.ignore(releaseLease(sql, clock, claimed, releaseOf(exit, attempts)))
            ),
            Effect.orDie
          )
          return Option.some({
            comparison_id: row.comparison_id,
            compared: row.compared - claimed.compared,
            completed: row.status === "completed"
          })
        }).pipe(Effect.withSpan("ComparisonRuns.runOnce"))

        const { start, wake } = yield* makeWorkerPool({
          name: "comparisons",
          workers: MAX_CONCURRENT,
          // Continues immediately after work was found, because more may be waiting.
          runOnce: Effect.map(
            runOnce,
            Option.match({
              onNone: () => undefined,
              onSome: ({ compared }) => ({ counts: { compared }, next: 0 })
            })
          ),
          countClaimable: (limit) => countClaimable(sql, clock, limit),
          pollName: "comparison_poll",
          pollEvery: POLL_INTERVAL,
          retryAfter: RETRY_DELAY
        })

        return ComparisonRuns.of({ runOnce, wake, startWorkers: start })
      })
    )

  /** Runs the comparison workers for as long as the layer is built. */
  static readonly layerWorkers: Layer.Layer<never, never, ComparisonRuns> = Layer.effectDiscard(
    Effect.flatMap(ComparisonRuns, ({ startWorkers }) => startWorkers)
  )
}

/** The reason of a comparison that ended as failed. The cause of each attempt is in the log. */
const FAILURE =
  "Internal errors interrupted the comparison repeatedly. Start another one; if it fails too, ask the operator for the service's log."

/**
 * How long a comparison cannot be claimed after an attempt, and whether the attempt counts against its failure budget.
 */
const releaseOf = <A, E>(exit: Exit.Exit<A, E>, attempts: number) => {
  if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause))
    return { backoff: Duration.zero, isCounted: false }
  const backoff = Duration.times(FIRST_BACKOFF, 2 ** (attempts - 1))
  return { backoff, isCounted: !isDatabaseOutage(exit.cause) }
}

const isDatabaseOutage = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => {
    const error = Cause.isDieReason(reason)
      ? reason.defect
      : Cause.isFailReason(reason)
        ? reason.error
        : undefined
    return SqlError.isSqlError(error) && isDatabaseUnavailable(error)
  })
