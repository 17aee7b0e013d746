import {
  Cause,
  Clock,
  Data,
  Effect,
  Fiber,
  FiberMap,
  Queue,
  Random,
  Schedule,
  type Scope,
  Semaphore
} from "effect"
import { SqlError } from "effect/sql"
import { type AttemptOutcome, conclude, type Conclusion } from "../../../domain/delivery/DeliveryState.ts"
import { isDatabaseUnavailable } from "../../store/databaseErrors.ts"
import type { AttemptResult } from "./Attempt.ts"
import type { Channel, CompletedDelivery } from "../Channel.ts"
import { logFailure } from "../../observability/DatabaseOutage.ts"
import {
  deliveryAttempts,
  deliveryAttemptDuration,
  type DeliveryVerdict
} from "../../observability/metricDefinitions.ts"
import { type Completed, countCompleted, logFailed } from "./completedDeliveries.ts"
import type { DeliveryStore } from "./DeliveryStore.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Lane } from "./Lane.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { Worker } from "../../concurrency/Worker.ts"
import type { ConcludedAttempt, RecordedResults } from "./writeResults.ts"

/**
 * How long the first result of a batch waits for others, in milliseconds, unless a full batch waits already. The statement costs
 * about the same for one result as for ten. A process that is killed meanwhile has its unrecorded deliveries sent again, so
 * both the time and the number are small.
 */
const GATHER_MILLIS = 40

/** Results in one batch. */
const BATCH_SIZE = 512

/** The pause between attempts to write while the database is unavailable, in milliseconds. */
const RETRY_MILLIS = 250

/** The pause before results whose rows are locked are written again, in milliseconds. */
const LOCKED_RETRY_MILLIS = 250

/** How many times a rejected result is written alone before it is recorded as a failure. */
const POISON_TRIES = 3

/**
 * How long results wait for a destination to be disabled, in milliseconds. Normally the destination is disabled before
 * the log shows the 410; this bounds the wait if that takes long.
 */
const DISABLE_WAIT_MILLIS = 250

/** The `last_error` of a delivery whose result could not be recorded. */
export const UNWRITABLE = "internal error: the result could not be written"

/** Records the results of attempts. */
export interface Finisher {
  /**
   * Records a batch of results. A run ends when they are recorded, however long the database is unavailable. Results
   * whose rows another transaction has locked are left to a later run.
   */
  readonly worker: Worker<never, never>
}

/** A defect in this code or in a channel's `onCompleted`, caught while writing. */
class WriteDefect extends Data.TaggedError("WriteDefect")<{ readonly defect: unknown }> {}

type WriteError = SqlError.SqlError | WriteDefect

/**
 * Records results in batches, each in one statement and one commit. Due times are on `dueClock`. `onRefused` is called with the lane of
 * each result that matched no row: the shard may have another owner, or the delivery was removed.
 */
export const makeFinisher = (
  store: DeliveryStore,
  dueClock: Clock.Clock,
  dispatcher: Dispatcher,
  onRefused: (lane: Lane) => void
): Effect.Effect<Finisher, never, Scope.Scope> =>
  Effect.gen(function* () {
    const context = yield* Effect.context()
    const clock = yield* Clock.Clock
    const disabling = yield* FiberMap.make<string>()
    // At most one connection may wait for row locks held by others.
    const disablePermits = Semaphore.makeUnsafe(1)
    /** Results of the current batch that the dispatcher has not been notified of. */
    const unacknowledged = new Set<AttemptResult>()
    /** Results whose rows, or whose hooks' rows, another transaction has locked; and when they are written again. */
    let locked: ReadonlyArray<ConcludedAttempt> = []
    let lockedRetryAt = 0

    /**
     * Writes results, together with the `onCompleted` hooks of their channels in one transaction. Without hooks it is a
     * single statement.
     */
    const writeAndNotify = (
      batch: ReadonlyArray<ConcludedAttempt>
    ): Effect.Effect<RecordedResults, SqlError.SqlError> => {
      const completed = Map.groupBy(batch.filter(callsHook), ({ result }) => result.lane.channel)
      if (completed.size === 0) return store.recordResults(batch)
      return store.recordResults(batch, (written) =>
        Effect.forEach(completed, ([channel, attempts]) => notifyChannel(channel, attempts, written), {
          discard: true
        })
      )
    }

    const write = (batch: ReadonlyArray<ConcludedAttempt>): Effect.Effect<RecordedResults, WriteError> =>
      Effect.catchDefect(
        Effect.suspend(() => writeAndNotify(batch)),
        (defect) => Effect.fail(new WriteDefect({ defect }))
      )

    /** Leaves results to a later run. */
    const postpone = (list: ReadonlyArray<ConcludedAttempt>) => {
      for (const { result } of list) unacknowledged.delete(result)
      if (locked.length === 0) lockedRetryAt = monotonicMillis(clock) + LOCKED_RETRY_MILLIS
      locked = [...locked, ...list]
    }

    /** Counts and logs the deliveries that the written results complete. `writtenFrom`: when the write began. */
    const acknowledge = (
      batch: ReadonlyArray<ConcludedAttempt>,
      recorded: RecordedResults,
      writtenFrom: number
    ): Effect.Effect<void> => {
      const { written } = recorded
      const ended = batch.filter(({ result }) => !recorded.locked.has(result.delivery.seq))
      if (ended.length < batch.length)
        postpone(batch.filter(({ result }) => recorded.locked.has(result.delivery.seq)))
      // A clock of its own is one that a test moves, perhaps during the write, whose statement has counted from before.
      const now = dueClock === clock ? monotonicMillis(dueClock) : writtenFrom
      for (const { result } of ended) {
        unacknowledged.delete(result)
        if (!written.has(result.delivery.seq)) onRefused(result.lane)
      }
      dispatcher.acknowledge(
        ended.map(({ result, verdict }) => ({
          result,
          retryAt:
            verdict._tag === "RetryLater" && written.has(result.delivery.seq) ? now + verdict.delay : null
        }))
      )
      const completed = ended.filter(({ result }) => written.has(result.delivery.seq)).flatMap(completedBy)
      countCompleted(completed, context)
      return logFailed(completed)
    }

    const abandon = (result: AttemptResult) => {
      unacknowledged.delete(result)
      dispatcher.abandon(result)
    }

    /** Retries for as long as the database is unavailable; retries a rejected write a few times. */
    const retryUntilWritten = <A>(effect: Effect.Effect<A, WriteError>) =>
      effect.pipe(
        Effect.retry({ while: (error) => !isUnavailable(error), times: POISON_TRIES - 1 }),
        Effect.retry({ while: isUnavailable, schedule: Schedule.spaced(RETRY_MILLIS) })
      )

    /**
     * Writes one result. A result that cannot be written is recorded as a failure with `UNWRITABLE`, since a delivery
     * left in the queue would be sent forever; it can be replayed. Its channel is notified of that failure, unless its
     * hook fails again.
     */
    const writeAlone = (concluded: ConcludedAttempt, from = monotonicMillis(dueClock)): Effect.Effect<void> =>
      retryUntilWritten(write([concluded])).pipe(
        Effect.flatMap((recorded) => acknowledge([concluded], recorded, from)),
        Effect.catch((error) => {
          const failed = unwritable(concluded)
          return Effect.logError("The result of a delivery was rejected; recording it as failed", error).pipe(
            Effect.andThen(retryUntilWritten(write([failed]))),
            Effect.catch(() => retryUntilWritten(store.recordResults([failed]))),
            Effect.flatMap((recorded) => acknowledge([failed], recorded, from))
          )
        }),
        Effect.catch((error) =>
          Effect.andThen(
            Effect.logError(
              "The result of a delivery could not be recorded; the next owner of its shard will send it again",
              error
            ),
            Effect.sync(() => abandon(concluded.result))
          )
        )
      )

    const writeBatch = (
      batch: ReadonlyArray<ConcludedAttempt>,
      from = monotonicMillis(dueClock)
    ): Effect.Effect<void> =>
      write(batch).pipe(
        Effect.matchEffect({
          onSuccess: (recorded) => acknowledge(batch, recorded, from),
          onFailure: (error) =>
            isLockTimeout(error) && batch.some(callsHook)
              ? writeWithoutHooks(batch)
              : isUnavailable(error)
                ? logFailure("Could not record delivery results; retrying", Cause.fail(error)).pipe(
                    Effect.andThen(Effect.sleep(RETRY_MILLIS)),
                    Effect.andThen(Effect.suspend(() => writeBatch(batch)))
                  )
                : Effect.forEach(batch, (concluded) => writeAlone(concluded), { discard: true })
        })
      )

    /** Writes results without notifying a channel. A hook waited for too long for a lock; its results follow later. */
    const writeWithoutHooks = (batch: ReadonlyArray<ConcludedAttempt>): Effect.Effect<void> =>
      Effect.suspend(() => {
        postpone(batch.filter(callsHook))
        const others = batch.filter((one) => !callsHook(one))
        return others.length === 0 ? Effect.void : writeBatch(others)
      })

    /**
     * Disables destinations that answered 410, each with the delivery that it answered. If that takes long it continues in the background, so that one
     * destination does not delay the results of others.
     */
    const disableDestinations = Effect.fnUntraced(function* (lanes: ReadonlyMap<Lane, string>) {
      const fibers: Array<Fiber.Fiber<void>> = []
      for (const [{ channel, destination_id, key, org_id }, delivery_id] of lanes) {
        const disable = disablePermits.withPermit(
          Effect.suspend(() => channel.disable?.(org_id, destination_id, delivery_id) ?? Effect.void)
        )
        const disabled = retryUntilWritten(disable).pipe(
          Effect.catchCause((cause) =>
            Effect.logError("Could not disable a destination that answered 410 Gone", cause)
          )
        )
        fibers.push(yield* FiberMap.run(disabling, key, disabled, { onlyIfMissing: true }))
      }
      if (fibers.length > 0) yield* Effect.timeoutOption(Fiber.awaitAll(fibers), DISABLE_WAIT_MILLIS)
    })

    const concludeAttempt = Effect.fnUntraced(function* (
      result: AttemptResult
    ): Effect.fn.Return<ConcludedAttempt> {
      const { delivery, lane, outcome } = result
      const attemptsMade = delivery.attempt - delivery.first_attempt + 1
      const remainingMillis = delivery.expiresAt - monotonicMillis(dueClock)
      const random = yield* Random.next
      const verdict = conclude(lane.channel.policy.retry, outcome, { attemptsMade, remainingMillis, random })
      const isLast = outcome._tag === "Retry" && verdict._tag === "Failed"
      deliveryAttempts(lane.channel.name, isLast ? "failed" : outcome._tag.toLowerCase()).updateUnsafe(
        1,
        context
      )
      if (outcome._tag !== "Refused")
        deliveryAttemptDuration(lane.channel.name).updateUnsafe(result.durationMillis / 1000, context)
      return { result, verdict }
    })

    /** Drops the results that a defect prevented from being recorded, so that they do not keep their shards here. */
    const dropUnacknowledged = (defect: unknown) =>
      Effect.andThen(
        Effect.logError("Defect while recording delivery results", defect),
        Effect.sync(() => unacknowledged.forEach(abandon))
      )

    /** Takes the results to write again, if it is time. */
    const takeLocked = (): ReadonlyArray<ConcludedAttempt> => {
      if (locked.length === 0 || monotonicMillis(clock) < lockedRetryAt) return []
      const taken = locked.slice(0, BATCH_SIZE)
      locked = locked.slice(BATCH_SIZE)
      lockedRetryAt = monotonicMillis(clock) + LOCKED_RETRY_MILLIS
      return taken
    }

    const hasResults = Effect.andThen(
      Queue.peek(dispatcher.results),
      Effect.raceFirst(dispatcher.hasFullBatch.await, Effect.sleep(GATHER_MILLIS))
    )

    return {
      worker: {
        name: "delivery_results",
        wakeUp: Effect.suspend(() =>
          locked.length === 0
            ? hasResults
            : Effect.raceFirst(
                hasResults,
                Effect.sleep(Math.max(0, Math.ceil(lockedRetryAt - monotonicMillis(clock))))
              )
        ),
        runOnce: Effect.gen(function* () {
          const waits = locked.length === 0
          const again = takeLocked()
          const taken =
            waits || Queue.sizeUnsafe(dispatcher.results) > 0 ? yield* dispatcher.takeResults(BATCH_SIZE) : []
          for (const result of taken) unacknowledged.add(result)
          for (const { result } of again) unacknowledged.add(result)
          const gone = new Map(
            taken
              .filter(({ outcome }) => outcome._tag === "Gone")
              .map(({ delivery, lane }) => [lane, delivery.delivery_id])
          )
          yield* disableDestinations(gone).pipe(
            Effect.andThen(Effect.forEach(taken, concludeAttempt)),
            Effect.map((batch) => [...again, ...batch]),
            Effect.flatMap((batch) => (batch.length === 0 ? Effect.void : writeBatch(batch))),
            Effect.catchDefect(dropUnacknowledged)
          )
          return { counts: { results: taken.length } }
        })
      }
    }
  })

const isUnavailable = (error: WriteError): boolean =>
  SqlError.isSqlError(error) && isDatabaseUnavailable(error)

const isLockTimeout = (error: WriteError): boolean =>
  SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

/** The result as a failure that can be recorded. An unsent delivery is not logged as an attempt. */
const unwritable = ({ result }: ConcludedAttempt): ConcludedAttempt => ({
  result: {
    ...result,
    outcome:
      result.outcome._tag === "Refused"
        ? { _tag: "Refused", error: UNWRITABLE }
        : { _tag: "Failed", error: UNWRITABLE, status: null }
  },
  verdict: { _tag: "Failed", error: UNWRITABLE }
})

/** The delivery that a result completes. */
const completedBy = ({ result, verdict }: ConcludedAttempt): ReadonlyArray<Completed> => {
  if (verdict._tag === "RetryLater") return []
  const { delivery, lane, outcome } = result
  return [
    {
      channel: lane.channel.name,
      org_id: lane.org_id,
      destination_id: lane.destination_id,
      delivery_id: delivery.delivery_id,
      verdict: verdict._tag === "Failed" ? verdictOf(outcome) : statusOf(verdict),
      error: verdict._tag === "Delivered" ? null : verdict.error
    }
  ]
}

/** Why a delivery failed. */
const verdictOf = ({ _tag }: AttemptOutcome): DeliveryVerdict =>
  _tag === "Gone" ? "gone" : _tag === "Refused" ? "refused" : "failed"

/** The final status of a delivery. */
const statusOf = ({ _tag }: Conclusion): CompletedDelivery["status"] =>
  _tag === "Delivered" ? "delivered" : _tag === "Partial" ? "partial" : "failed"

/** Whether a channel is notified of this result. */
const callsHook = ({ result, verdict }: ConcludedAttempt): boolean =>
  result.lane.channel.onCompleted !== undefined && verdict._tag !== "RetryLater"

/** Notifies a channel of its deliveries that reached their final status and whose row was still at the recorded attempt. */
const notifyChannel = (
  channel: Channel,
  list: ReadonlyArray<ConcludedAttempt>,
  written: ReadonlySet<number>
) => {
  const completed = list
    .filter(({ result }) => written.has(result.delivery.seq))
    .map(({ result, verdict }): CompletedDelivery => ({
      delivery: result.delivery,
      status: statusOf(verdict),
      outcome: result.outcome
    }))
  return completed.length === 0 ? Effect.void : (channel.onCompleted?.(completed) ?? Effect.void)
}
