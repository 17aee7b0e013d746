import { Clock, Effect, Queue, Random, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { conclude } from "../../domain/DeliveryState.ts"
import { isOutOfReach, transaction } from "../Database.ts"
import type { Channel, Settled } from "./Channel.ts"
import { attempts, attemptSeconds } from "../Metrics/definitions.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import { monotonicMillis } from "./Shards.ts"
import { writeHealth } from "./writeHealth.ts"
import { type Judged, writeResults } from "./writeResults.ts"

/** How long the first result of a group waits for others. */
const GATHER_MILLIS = 10

/** Results of one group. */
const GROUP = 512

/** Between two tries to write while the store is away. */
const AGAIN_MILLIS = 250

/** How often a result that cannot be written is tried alone before it is written as a failure. */
const POISON_TRIES = 3

/** What a delivery is recorded with whose result could not be written. */
const UNWRITABLE = "internal error: the result could not be written"

/** Writes down what ended. */
export interface Finisher {
  /** Waits for results, then writes them as a group. Ends when they are written, however long the store is away. */
  readonly turn: Effect.Effect<void>
}

/** Results are written in groups, each in one statement: one commit for many. */
export const makeFinisher = (sql: SqlClient.SqlClient, dispatcher: Dispatcher): Effect.Effect<Finisher> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const context = yield* Effect.context()

    /**
     * Writes results, and in one transaction with them what the channels do at the end of their deliveries. Where no channel does anything, one
     * statement is all there is.
     */
    const writeAndSettle = (group: ReadonlyArray<Judged>) => {
      const settling = Map.groupBy(
        group.filter(({ ended, verdict }) => settles(ended.lane.channel) && verdict._tag !== "Again"),
        ({ ended }) => ended.lane.channel
      )
      if (settling.size === 0) return writeResults(sql, group)
      return transaction(
        Effect.tap(writeResults(sql, group), (written) =>
          Effect.forEach(settling, ([channel, own]) => settle(channel, own, written), { discard: true })
        )
      ).pipe(Effect.provideService(SqlClient.SqlClient, sql))
    }

    const tell = (group: ReadonlyArray<Judged>, written: ReadonlySet<number>) => {
      const now = monotonicMillis(clock)
      dispatcher.written(
        group.map(({ ended, verdict }) => ({
          ended,
          due: verdict._tag === "Again" && written.has(ended.item.seq) ? now + verdict.delay : null
        }))
      )
    }

    /** Waits for a store that is away; what it refuses is tried a few times. */
    const stubborn = <A>(effect: Effect.Effect<A, SqlError.SqlError>) =>
      effect.pipe(
        Effect.retry({ while: (error) => !isOutOfReach(error), times: POISON_TRIES - 1 }),
        Effect.retry({ while: isOutOfReach, schedule: Schedule.spaced(AGAIN_MILLIS) })
      )

    /**
     * One that cannot be written ends as a failure, which says nothing but that, and of which its channel hears nothing: left as it is it
     * would be sent for ever. It can be replayed.
     */
    const writeAlone = (judged: Judged): Effect.Effect<void> =>
      stubborn(writeAndSettle([judged])).pipe(
        Effect.map((written) => tell([judged], written)),
        Effect.catch((error) => {
          const failed = unwritable(judged)
          return Effect.logError(
            "The result of a delivery cannot be written: it counts as failed",
            error
          ).pipe(
            Effect.andThen(stubborn(writeResults(sql, [failed]))),
            Effect.map((written) => tell([failed], written))
          )
        }),
        Effect.catch((error) =>
          Effect.andThen(
            Effect.logError("A delivery is left to the next owner of its shard", error),
            Effect.sync(() => dispatcher.abandoned(judged.ended))
          )
        )
      )

    const writeGroup = (group: ReadonlyArray<Judged>): Effect.Effect<void> =>
      writeAndSettle(group).pipe(
        Effect.matchEffect({
          onSuccess: (written) => Effect.sync(() => tell(group, written)),
          onFailure: (error) =>
            isOutOfReach(error)
              ? Effect.logWarning("Results of deliveries wait for the store", error).pipe(
                  Effect.andThen(Effect.sleep(AGAIN_MILLIS)),
                  Effect.andThen(Effect.suspend(() => writeGroup(group)))
                )
              : Effect.forEach(group, writeAlone, { discard: true })
        })
      )

    /** Written after the results, apart from them: it informs, and decides nothing that the log records. */
    const saveHealth = Effect.suspend(() => {
      const unsaved = dispatcher.unsaved()
      if (unsaved.size === 0) return Effect.void
      return Effect.map(writeHealth(sql, unsaved, monotonicMillis(clock)), () => dispatcher.saved(unsaved))
    }).pipe(Effect.catch((error) => Effect.logWarning("The health of destinations was not written", error)))

    const switchOff = (group: ReadonlyArray<Judged>) =>
      Effect.forEach(
        group.filter(({ ended }) => ended.outcome._tag === "Gone"),
        ({ ended: { lane } }) =>
          lane.channel.switchOff?.(lane.org_id, lane.destination_id).pipe(
            Effect.retry({ times: POISON_TRIES }),
            Effect.catch((error) => Effect.logError("A destination was not switched off", error))
          ) ?? Effect.void,
        { discard: true }
      )

    return {
      turn: Effect.gen(function* () {
        yield* Queue.peek(dispatcher.results)
        yield* Effect.sleep(GATHER_MILLIS)
        const group: Array<Judged> = []
        for (const ended of yield* Queue.takeBetween(dispatcher.results, 1, GROUP)) {
          const { item, lane, outcome } = ended
          const made = item.attempt - item.round_start + 1
          const left = item.giveUp - monotonicMillis(clock)
          const random = yield* Random.next
          attempts(lane.channel.name, outcome._tag.toLowerCase()).updateUnsafe(1, context)
          if (outcome._tag !== "Refused")
            attemptSeconds(lane.channel.name).updateUnsafe(ended.durationMillis / 1000, context)
          group.push({
            ended,
            verdict: conclude(lane.channel.policy.retry, outcome, { made, left, random })
          })
        }
        yield* switchOff(group)
        yield* writeGroup(group)
        yield* saveHealth
      })
    }
  })

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
