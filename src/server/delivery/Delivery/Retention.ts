import { DateTime, type Duration, Effect, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { uuidTimePrefix } from "../../../domain/Ids.ts"
import { int4Array } from "../../store/pgArrays.ts"
import { transaction } from "../../store/Database/transaction.ts"
import { repeatEvery, deleteInBatches } from "../../concurrency/deleteInBatches.ts"
import type { Channel, Parcel, Settled } from "./Channel.ts"
import { keepPartitions } from "./partitions.ts"
import { SHARDS } from "./Shards.ts"

/** How long what is known of deliveries is kept. */
export interface RetentionOptions {
  /** Deliveries, their attempts and their payloads. Default 30 days. */
  readonly keep: Duration.Input
  /** How often it is looked after; where a run left something, it goes on after a second. Default every 10 minutes. */
  readonly every: Duration.Input
  /** Statements of one run for each kind of row; what is left is for the next. Default 200. */
  readonly steps: number
}

/** The contract's thirty days. */
export const defaultRetention: RetentionOptions = { keep: "30 days", every: "10 minutes", steps: 200 }

/** What one run removed, in rows; of attempts also whole days. */
export interface Removed {
  readonly deliveries: number
  readonly payloads: number
  readonly days: number
  /** Whether there may be more to remove. */
  readonly more: boolean
}

/** Rows of one statement: short transactions, so that nobody waits for them. */
const STEP_ROWS = 1_000

const shards = Array.from({ length: SHARDS }, (_, shard) => shard)

/** A process whose last lease ended so many days ago is dead. */
const DEAD_DAYS = 1

/** A transaction that is open for longer is warned of: what was written and deleted since it began cannot be cleared away. */
const OLD_SNAPSHOT_SECONDS = 600

/** Removes what is older than is kept, in bounded steps, and makes the partitions of the days to come. */
export interface Retention {
  /** One run at a time: who asks while another is at it goes after it. */
  readonly runOnce: Effect.Effect<Removed, SqlError.SqlError>
  /** The partitions alone: a day's must be there before its first attempt. Answers with how many were dropped. */
  readonly partitions: Effect.Effect<number>
  /** Runs at once and then for ever. */
  readonly loop: Effect.Effect<never>
}

/** The retention of the log and of what the channels keep. */
export const makeRetention = (
  sql: SqlClient.SqlClient,
  channels: ReadonlyArray<Channel>,
  now: Effect.Effect<DateTime.Utc>,
  options: RetentionOptions
): Retention => {
  const running = Semaphore.makeUnsafe(1)
  const limits = { rows: STEP_ROWS, steps: options.steps }

  /**
   * Log rows by their ids, which begin with a prefix of their destination's channel and the time they were made, destination by
   * destination. A delivery that still waits goes with its place in the queue: its payload goes too. Answers with all of them; `channel`
   * is of those that waited.
   */
  const deleteDeliveries = (cutoff: DateTime.Utc) =>
    sql<Deleted>`
      WITH RECURSIVE destinations AS (
        (
          SELECT org_id, destination_id, delivery_id AS oldest
          FROM deliveries
          ORDER BY org_id, destination_id, delivery_id
          LIMIT 1
        )
        UNION ALL
        SELECT n.org_id, n.destination_id, n.oldest
        FROM destinations d
        CROSS JOIN LATERAL (
          SELECT org_id, destination_id, delivery_id AS oldest
          FROM deliveries
          WHERE (org_id, destination_id) > (d.org_id, d.destination_id)
          ORDER BY org_id, destination_id, delivery_id
          LIMIT 1
        ) n
      ), old AS MATERIALIZED (
        SELECT d.org_id, d.destination_id, l.delivery_id, l.status
        FROM destinations d
        CROSS JOIN LATERAL (
          SELECT delivery_id, status
          FROM deliveries l
          WHERE l.org_id = d.org_id
            AND l.destination_id = d.destination_id
            AND l.delivery_id < split_part(d.oldest, '_', 1) || '_' || ${uuidTimePrefix(cutoff)}::text
            AND l.created_at < ${DateTime.toDateUtc(cutoff)}
          ORDER BY delivery_id
          LIMIT ${STEP_ROWS}::int
        ) l
        LIMIT ${STEP_ROWS}::int
      ), waiting AS MATERIALIZED (
        -- Places in the queue are locked first and in their order, as by whoever writes results down; what is locked stays for the
        -- next run.
        SELECT q.shard, q.seq
        FROM old
        JOIN delivery_queue q
          ON q.shard = ANY(${int4Array(shards)}::smallint[])
          AND q.org_id = old.org_id
          AND q.destination_id = old.destination_id
          AND q.delivery_id = old.delivery_id
        WHERE old.status = 'pending'
        ORDER BY q.shard, q.seq
        FOR UPDATE OF q SKIP LOCKED
      ), unqueued AS (
        DELETE FROM delivery_queue q
        USING waiting w
        WHERE q.shard = w.shard
          AND q.seq = w.seq
        RETURNING q.org_id, q.destination_id, q.delivery_id, q.channel
      )
      DELETE FROM deliveries l
      USING (
        SELECT org_id, destination_id, delivery_id, NULL AS channel FROM old WHERE status <> 'pending'
        UNION ALL
        SELECT org_id, destination_id, delivery_id, channel FROM unqueued
      ) gone
      WHERE l.org_id = gone.org_id
        AND l.destination_id = gone.destination_id
        AND l.delivery_id = gone.delivery_id
      RETURNING l.org_id, l.destination_id, l.delivery_id, l.event_id, gone.channel
    `.unprepared

  /** Removes old deliveries. What waited has come to its end by that, of which its channel hears like of any other. */
  const removeDeliveries = (cutoff: DateTime.Utc) =>
    transaction(
      Effect.gen(function* () {
        const deleted = yield* deleteDeliveries(cutoff)
        for (const { name, settle } of channels) {
          const ends = deleted.filter(({ channel }) => channel === name).map(tooOld)
          if (ends.length > 0) yield* settle?.(ends) ?? Effect.void
        }
        return deleted.length
      })
    ).pipe(Effect.provideService(SqlClient.SqlClient, sql))

  /** Attempts that were made on a day without a partition. */
  const removeStrays = (cutoff: DateTime.Utc) =>
    Effect.map(
      sql`
        DELETE FROM delivery_attempts_default
        WHERE ctid = ANY(ARRAY(
          SELECT ctid
          FROM delivery_attempts_default
          WHERE started_at < ${DateTime.toDateUtc(cutoff)}
          LIMIT ${STEP_ROWS}::int
        ))
        RETURNING 1 AS removed
      `.unprepared,
      (rows) => rows.length
    )

  /** What is known of destinations of which no delivery is: a last attempt may have ended after they were removed. */
  const removeHealth = Effect.map(
    sql`
      DELETE FROM delivery_destinations
      WHERE ctid = ANY(ARRAY(
        SELECT d.ctid
        FROM delivery_destinations d
        -- A look into the index for each of them; as NOT EXISTS it might be read whole.
        WHERE (SELECT true FROM deliveries l WHERE l.org_id = d.org_id AND l.destination_id = d.destination_id LIMIT 1) IS NULL
        LIMIT ${STEP_ROWS}::int
        FOR UPDATE OF d SKIP LOCKED
      ))
      RETURNING 1 AS removed
    `.unprepared,
    (rows) => rows.length
  )

  const partitions = Effect.flatMap(now, (today) =>
    keepPartitions(sql, DateTime.subtractDuration(today, options.keep), today)
  )

  /** Of the transactions that this role may see. The engine itself keeps its pace meanwhile; its tables grow. */
  const warnOfOldSnapshot = Effect.gen(function* () {
    const [oldest] = yield* sql<{ readonly pid: number; readonly name: string; readonly seconds: number }>`
      SELECT pid::int AS pid, application_name AS name, extract(epoch FROM now() - xact_start)::int AS seconds
      FROM pg_stat_activity
      WHERE backend_xmin IS NOT NULL
        AND datname = current_database()
        AND xact_start < now() - ${OLD_SNAPSHOT_SECONDS}::int * interval '1 second'
      ORDER BY xact_start
      LIMIT 1
    `
    if (oldest === undefined) return
    yield* Effect.logWarning(
      `A transaction is open for ${oldest.seconds} s: deleted rows cannot be cleared away until it ends`,
      { pid: oldest.pid, application_name: oldest.name }
    )
  })

  const runOnce = Effect.gen(function* () {
    yield* warnOfOldSnapshot

    yield* sql`DELETE FROM delivery_owners WHERE lease_until < now() - ${DEAD_DAYS}::int * interval '1 day'`
    const days = yield* partitions.pipe(
      Effect.catchCause((cause) =>
        Effect.as(Effect.logWarning("The partitions of attempts wait for the next time", cause), 0)
      )
    )
    const cutoff = DateTime.subtractDuration(yield* now, options.keep)
    const strays = yield* deleteInBatches(removeStrays(cutoff), limits)
    const deliveries = yield* deleteInBatches(removeDeliveries(cutoff), limits)
    const health = yield* deleteInBatches(removeHealth, limits)
    const payloads = yield* Effect.forEach(channels, (channel) =>
      deleteInBatches(channel.expire(cutoff, STEP_ROWS), limits)
    )
    return {
      deliveries: deliveries.removed,
      payloads: payloads.reduce((sum, { removed }) => sum + removed, 0),
      days,
      more: [strays, deliveries, health, ...payloads].some(({ more }) => more)
    }
  }).pipe(running.withPermits(1))

  return {
    runOnce,
    partitions,
    loop: repeatEvery("Old deliveries", runOnce, options.every)
  }
}

/** A delivery that was removed; `channel` where it waited until then. */
interface Deleted extends Parcel {
  readonly channel: string | null
}

const tooOld = (parcel: Parcel): Settled => ({
  parcel,
  status: "failed",
  outcome: { _tag: "Refused", error: "older than is kept" }
})
