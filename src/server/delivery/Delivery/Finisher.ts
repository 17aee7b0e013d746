import { Clock, Data, Effect, Fiber, FiberMap, Queue, Random, Schedule, type Scope, Semaphore } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { conclude } from "../../../domain/delivery/DeliveryState.ts"
import { isDatabaseUnavailable } from "../../store/Database/databaseErrors.ts"
import { transaction } from "../../store/Database/transaction.ts"
import type { Ended } from "./Attempt.ts"
import type { Channel, Settled } from "./Channel.ts"
import { deliveryAttempts, deliveryAttemptDuration } from "../../observability/metricDefinitions.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Lane } from "./Lane.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { type Judged, writeResults } from "./writeResults.ts"

/** How long the first result of a group waits for others. */
const GATHER_MILLIS = 10

/** Results of one group. */
const GROUP = 512

/** Between two tries to write while the store is away. */
const AGAIN_MILLIS = 250

/** How often a result that cannot be written is tried alone before it is written as a failure. */
const POISON_TRIES = 3

/** How long results wait for a destination to be switched off: the log says so once it is, unless that takes long. */
const SWITCH_OFF_MILLIS = 250

/** What a delivery is recorded with whose result could not be written. */
const UNWRITABLE = "internal error: the result could not be written"

/** Writes down what ended. */
export interface Finisher {
  /** Waits for results, then writes them as a group. Ends when they are written, however long the store is away. */
  readonly turn: Effect.Effect<void>
}

/** A fault of ours or of a channel's, on the way to the store. */
class Broken extends Data.TaggedError("Broken")<{ readonly defect: unknown }> {}

type WriteError = SqlError.SqlError | Broken

/** Results are written in groups, each in one statement: one commit for many. */
export const makeFinisher = (
  sql: SqlClient.SqlClient,
  dispatcher: Dispatcher
): Effect.Effect<Finisher, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const context = yield* Effect.context()
    const switching = yield* FiberMap.make<string>()
    // One connection at most waits for rows that somebody holds.
    const switchOffs = Semaphore.makeUnsafe(1)
    /** Results of the turn at hand that the dispatcher has not heard of yet. */
    const untold = new Set<Ended>()

    /**
     * Writes results, and in one transaction with them what the channels do at the end of their deliveries. Where no channel does anything, one
     * statement is all there is.
     */
    const writeAndSettle = (
      group: ReadonlyArray<Judged>
    ): Effect.Effect<ReadonlySet<number>, SqlError.SqlError> => {
      const settling = Map.groupBy(
        group.filter(({ ended, verdict }) => settles(ended.lane.channel) && verdict._tag !== "RetryLater"),
        ({ ended }) => ended.lane.channel
      )
      if (settling.size === 0) return writeResults(sql, group)
      return transaction(
        Effect.tap(writeResults(sql, group), (written) =>
          Effect.forEach(settling, ([channel, own]) => settle(channel, own, written), { discard: true })
        )
      ).pipe(Effect.provideService(SqlClient.SqlClient, sql))
    }

    const write = (group: ReadonlyArray<Judged>): Effect.Effect<ReadonlySet<number>, WriteError> =>
      Effect.catchDefect(
        Effect.suspend(() => writeAndSettle(group)),
        (defect) => Effect.fail(new Broken({ defect }))
      )

    const tell = (group: ReadonlyArray<Judged>, written: ReadonlySet<number>) => {
      const now = monotonicMillis(clock)
      for (const { ended } of group) untold.delete(ended)
      dispatcher.written(
        group.map(({ ended, verdict }) => ({
          ended,
          due: verdict._tag === "RetryLater" && written.has(ended.item.seq) ? now + verdict.delay : null
        }))
      )
    }

    const abandon = (ended: Ended) => {
      untold.delete(ended)
      dispatcher.abandoned(ended)
    }

    /** Waits for a store that is away; what it refuses is tried a few times. */
    const stubborn = <A>(effect: Effect.Effect<A, WriteError>) =>
      effect.pipe(
        Effect.retry({ while: (error) => !isAway(error), times: POISON_TRIES - 1 }),
        Effect.retry({ while: isAway, schedule: Schedule.spaced(AGAIN_MILLIS) })
      )

    /**
     * One that cannot be written ends as a failure, which says nothing but that: left as it is it would be sent for ever. It can be
     * replayed. Its channel hears of the failure, unless it cannot take that in either.
     */
    const writeAlone = (judged: Judged): Effect.Effect<void> =>
      stubborn(write([judged])).pipe(
        Effect.map((written) => tell([judged], written)),
        Effect.catch((error) => {
          const failed = unwritable(judged)
          return Effect.logError(
            "The result of a delivery cannot be written: it counts as failed",
            error
          ).pipe(
            Effect.andThen(stubborn(write([failed]))),
            Effect.catch(() => stubborn(writeResults(sql, [failed]))),
            Effect.map((written) => tell([failed], written))
          )
        }),
        Effect.catch((error) =>
          Effect.andThen(
            Effect.logError("A delivery is left to the next owner of its shard", error),
            Effect.sync(() => abandon(judged.ended))
          )
        )
      )

    const writeGroup = (group: ReadonlyArray<Judged>): Effect.Effect<void> =>
      write(group).pipe(
        Effect.matchEffect({
          onSuccess: (written) => Effect.sync(() => tell(group, written)),
          onFailure: (error) =>
            isAway(error)
              ? Effect.logWarning("Results of deliveries wait for the store", error).pipe(
                  Effect.andThen(Effect.sleep(AGAIN_MILLIS)),
                  Effect.andThen(Effect.suspend(() => writeGroup(group)))
                )
              : Effect.forEach(group, writeAlone, { discard: true })
        })
      )

    /** Goes on beside the results where it takes long, until it is done: they do not wait for one destination. */
    const switchOff = Effect.fnUntraced(function* (lanes: ReadonlySet<Lane>) {
      const fibers: Array<Fiber.Fiber<void>> = []
      for (const { channel, destination_id, key, org_id } of lanes) {
        const off = switchOffs.withPermit(
          Effect.suspend(() => channel.switchOff?.(org_id, destination_id) ?? Effect.void)
        )
        const stubbornly = stubborn(off).pipe(
          Effect.catchCause((cause) => Effect.logError("A destination was not switched off", cause))
        )
        fibers.push(yield* FiberMap.run(switching, key, stubbornly, { onlyIfMissing: true }))
      }
      if (fibers.length > 0) yield* Effect.timeoutOption(Fiber.awaitAll(fibers), SWITCH_OFF_MILLIS)
    })

    const judge = Effect.fnUntraced(function* (ended: Ended): Effect.fn.Return<Judged> {
      const { item, lane, outcome } = ended
      const attemptsMade = item.attempt - item.first_attempt + 1
      const remainingMillis = item.giveUp - monotonicMillis(clock)
      const random = yield* Random.next
      deliveryAttempts(lane.channel.name, outcome._tag.toLowerCase()).updateUnsafe(1, context)
      if (outcome._tag !== "Refused")
        deliveryAttemptDuration(lane.channel.name).updateUnsafe(ended.durationMillis / 1000, context)
      return {
        ended,
        verdict: conclude(lane.channel.policy.retry, outcome, {
          attemptsMade,
          remainingMillis,
          random
        })
      }
    })

    /** What is lost on the way all the same keeps no shard here. */
    const abandonUntold = (defect: unknown) =>
      Effect.andThen(
        Effect.logError("Results of deliveries could not be written", defect),
        Effect.sync(() => untold.forEach(abandon))
      )

    return {
      turn: Effect.gen(function* () {
        yield* Queue.peek(dispatcher.results)
        yield* Effect.sleep(GATHER_MILLIS)
        const taken = yield* Queue.takeBetween(dispatcher.results, 1, GROUP)
        for (const ended of taken) untold.add(ended)
        const gone = new Set(taken.filter(({ outcome }) => outcome._tag === "Gone").map(({ lane }) => lane))
        yield* switchOff(gone).pipe(
          Effect.andThen(Effect.forEach(taken, judge)),
          Effect.flatMap(writeGroup),
          Effect.catchDefect(abandonUntold)
        )
      })
    }
  })

const isAway = (error: WriteError): boolean => SqlError.isSqlError(error) && isDatabaseUnavailable(error)

const unwritable = ({ ended }: Judged): Judged => ({
  ended: { ...ended, outcome: { _tag: "Failed", error: UNWRITABLE, status: null } },
  verdict: { _tag: "Failed", error: UNWRITABLE }
})

const settles = (channel: Channel): boolean => channel.settle !== undefined

/** Tells a channel of those of its deliveries that were at the attempt that ended, and are at their end. */
const settle = (channel: Channel, list: ReadonlyArray<Judged>, written: ReadonlySet<number>) => {
  const ends = list
    .filter(({ ended }) => written.has(ended.item.seq))
    .map(({ ended, verdict }): Settled => ({
      parcel: ended.item,
      status: verdict._tag === "Delivered" ? "delivered" : verdict._tag === "Partial" ? "partial" : "failed",
      outcome: ended.outcome
    }))
  return ends.length === 0 ? Effect.void : (channel.settle?.(ends) ?? Effect.void)
}
