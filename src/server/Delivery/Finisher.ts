import { booleans, floats, ints, longs, texts } from "./Columns.ts"
import { Clock, Effect, Queue, Random, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { conclude, type Verdict } from "../../domain/DeliveryState.ts"
import { isOutOfReach, transaction } from "../Database.ts"
import type { Channel, Settled } from "./Channel.ts"
import { attempts, attemptSeconds } from "../Metrics/definitions.ts"
import type { Ended } from "./Attempt.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Lane } from "./Lane.ts"
import { monotonicMillis } from "./Shards.ts"

/** How long the first result of a group waits for others. */
const GATHER_MILLIS = 10

/** Results of one group. */
const GROUP = 512

/** Between two tries to write while the store is away. */
const AGAIN_MILLIS = 250

/** How often a result that cannot be written is tried alone before it is left to the next owner. */
const POISON_TRIES = 3

/** A result with what it makes of its delivery. */
interface Judged {
  readonly ended: Ended
  readonly verdict: Verdict
}

/** Writes down what ended. */
export interface Finisher {
  /** Waits for results, then writes them as a group. Ends when they are written, however long the store is away. */
  readonly turn: Effect.Effect<void>
}

/**
 * Results are written in groups, each in one statement: one commit for many. It is fenced twice: by the row's attempt and by
 * the shard's epoch, so the late result of a former owner finds nothing to overwrite.
 */
export const makeFinisher = (sql: SqlClient.SqlClient, dispatcher: Dispatcher): Effect.Effect<Finisher> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const context = yield* Effect.context()

    /** The numbers of the rows that were still at the attempt that ended. */
    const write = (group: ReadonlyArray<Judged>): Effect.Effect<ReadonlySet<number>, SqlError.SqlError> => {
      const column = <A>(of: (judged: Judged) => A): Array<A> => group.map(of)
      return Effect.map(
        sql<{ readonly seq: number }>`
          WITH ended AS (
            SELECT *
            FROM unnest(
              ${ints(column(({ ended }) => ended.item.shard))}::smallint[],
              ${longs(column(({ ended }) => ended.item.seq))}::bigint[],
              ${longs(column(({ ended }) => ended.owned.epoch))}::bigint[],
              ${ints(column(({ ended }) => ended.item.attempt))}::int[],
              ${booleans(column(({ ended }) => ended.outcome._tag !== "Refused"))}::boolean[],
              ${texts(column(({ verdict }) => verdict._tag))}::text[],
              ${floats(column(({ verdict }) => (verdict._tag === "Again" ? verdict.delay : 0)))}::float8[],
              ${texts(column(({ verdict }) => (verdict._tag === "Delivered" ? null : verdict.error)))}::text[],
              ${ints(column(({ verdict }) => (verdict._tag === "Partial" ? verdict.rejected : 0)))}::int[],
              ${ints(column(({ ended }) => (ended.outcome._tag === "Refused" ? null : ended.outcome.status)))}::int[],
              ${floats(column(({ ended }) => ended.startedAt / 1000))}::float8[],
              ${ints(column(({ ended }) => ended.durationMillis))}::int[]
            ) AS e (shard, seq, epoch, attempt, sent, verdict, delay, error, rejected, status, started, duration)
          ), held AS MATERIALIZED (
            SELECT e.*, q.org_id, q.destination_id, q.delivery_id
            FROM ended e
            JOIN delivery_queue q ON q.shard = e.shard AND q.seq = e.seq AND q.attempt = e.attempt
            JOIN delivery_shards s ON s.shard = e.shard AND s.epoch = e.epoch
            ORDER BY e.shard, e.seq
            FOR UPDATE OF q
          ), done AS (
            DELETE FROM delivery_queue q
            USING held h
            WHERE q.shard = h.shard
              AND q.seq = h.seq
              AND h.verdict <> 'Again'
          ), again AS (
            UPDATE delivery_queue q
            SET due_at = statement_timestamp() + h.delay * interval '1 millisecond', attempt = q.attempt + 1
            FROM held h
            WHERE q.shard = h.shard
              AND q.seq = h.seq
              AND h.verdict = 'Again'
          ), logged AS (
            INSERT INTO delivery_attempts
              (org_id, destination_id, delivery_id, attempt, started_at, duration_ms, status, error)
            SELECT org_id, destination_id, delivery_id, attempt + 1, to_timestamp(started), duration, status, error
            FROM held
            WHERE sent
          ), noted AS (
            UPDATE deliveries d
            SET
              status = CASE h.verdict
                WHEN 'Again' THEN 'pending'
                WHEN 'Delivered' THEN 'delivered'
                WHEN 'Partial' THEN 'partial'
                ELSE 'failed'
              END,
              attempts = d.attempts + h.sent::int,
              rejected = h.rejected,
              status_code = CASE WHEN h.sent THEN h.status ELSE d.status_code END,
              last_error = h.error,
              finished_at = CASE
                WHEN h.verdict <> 'Again' THEN to_timestamp(h.started) + h.duration * interval '1 millisecond'
              END
            FROM held h
            WHERE d.org_id = h.org_id
              AND d.destination_id = h.destination_id
              AND d.delivery_id = h.delivery_id
          )
          SELECT seq::float8 AS seq
          FROM held
        `,
        (rows) => new Set(rows.map((row) => row.seq))
      )
    }

    /**
     * The same, and in one transaction with it what the channels do at the end of their deliveries. Where no channel does anything, one
     * statement is all there is.
     */
    const writeAndSettle = (group: ReadonlyArray<Judged>) => {
      const settling = Map.groupBy(
        group.filter(({ ended, verdict }) => settles(ended.lane.channel) && verdict._tag !== "Again"),
        ({ ended }) => ended.lane.channel
      )
      if (settling.size === 0) return write(group)
      return transaction(
        Effect.tap(write(group), (written) =>
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

    /** One that cannot be written keeps its row as it was: it is sent again by the shard's next owner. */
    const writeAlone = (judged: Judged): Effect.Effect<void> =>
      writeAndSettle([judged]).pipe(
        Effect.retry({ while: (error) => !isOutOfReach(error), times: POISON_TRIES - 1 }),
        Effect.retry({ while: isOutOfReach, schedule: Schedule.spaced(AGAIN_MILLIS) }),
        Effect.matchEffect({
          onSuccess: (written) => Effect.sync(() => tell([judged], written)),
          onFailure: (error) => Effect.logError("The result of a delivery cannot be written", error)
        })
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
      const lanes = dispatcher.takeUnsaved()
      return lanes.length === 0 ? Effect.void : writeHealth(sql, lanes, monotonicMillis(clock))
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

/** Writes the health of lanes. A healthy destination whose deliveries arrive is never written. */
const writeHealth = (
  sql: SqlClient.SqlClient,
  lanes: ReadonlyArray<Lane>,
  now: number
): Effect.Effect<void, SqlError.SqlError> => {
  const sorted = lanes.toSorted((a, b) => (a.key < b.key ? -1 : 1))
  return Effect.asVoid(
    sql`
      INSERT INTO delivery_destinations AS d
        (org_id, destination_id, consecutive_failures, cooldown_round, cooldown_until)
      SELECT
        org_id, destination_id, failures, round,
        CASE WHEN wait >= 0 THEN statement_timestamp() + wait * interval '1 millisecond' END
      FROM unnest(
        ${texts(sorted.map((lane) => lane.org_id))}::text[],
        ${texts(sorted.map((lane) => lane.destination_id))}::text[],
        ${ints(sorted.map((lane) => lane.health.failures))}::int[],
        ${ints(sorted.map(({ health }) => (health._tag === "Open" ? 0 : health.round)))}::int[],
        ${floats(sorted.map(({ health }) => (health._tag === "Cooling" ? Math.max(0, health.until - now) : -1)))}::float8[]
      ) AS l (org_id, destination_id, failures, round, wait)
      ON CONFLICT (org_id, destination_id) DO UPDATE
      SET
        consecutive_failures = EXCLUDED.consecutive_failures,
        cooldown_round = EXCLUDED.cooldown_round,
        cooldown_until = EXCLUDED.cooldown_until
      WHERE (d.consecutive_failures, d.cooldown_round, d.cooldown_until)
        IS DISTINCT FROM (EXCLUDED.consecutive_failures, EXCLUDED.cooldown_round, EXCLUDED.cooldown_until)
    `
  )
}
