import { DateTime, type Duration, Effect, Metric, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type OrgId, uuidTimePrefix } from "../../../domain/Ids.ts"
import { int4Array } from "../../store/pgArrays.ts"
import { deleteOfOrganizations } from "../../store/deleteOfOrganizations.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { transaction } from "../../store/transaction.ts"
import { deleteInBatches, toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import type { Worker } from "../../concurrency/Worker.ts"
import { deliveriesCompleted } from "../../observability/metricDefinitions.ts"
import type { Channel, DeliveryRef, CompletedDelivery } from "../Channel.ts"
import { maintainPartitions } from "./maintainPartitions.ts"
import { allShards } from "./shardOf.ts"

/** How long the delivery log is retained. */
export interface RetentionOptions {
  /** Retention of deliveries, their attempts and their payloads. Default 30 days. */
  readonly keep: Duration.Input
  /**
   * Interval between runs; a run that left something to delete is followed by the next after a second. Default 10
   * minutes.
   */
  readonly every: Duration.Input
  /** Maximum number of statements per run and kind of row; the next run continues. Default 200. */
  readonly steps: number
}

/** The contract's default of 30 days. */
export const defaultRetention: RetentionOptions = { keep: "30 days", every: "10 minutes", steps: 200 }

/** The rows deleted by one run; `days` counts dropped partitions of attempts. */
export interface RetentionResult {
  readonly deliveries: number
  readonly payloads: number
  readonly days: number
  /** Whether more may be left to delete. */
  readonly more: boolean
}

/** Rows per statement, so that transactions stay short and do not delay others. */
const STEP_ROWS = 1_000

/** An owner whose last lease ended this many days ago is deleted. */
const DEAD_DAYS = 1

/**
 * A transaction open for longer is logged: until it ends, PostgreSQL cannot vacuum rows that were deleted since it
 * began.
 */
const LONG_TRANSACTION_SECONDS = 600

/** Deletes expired data in batches and creates the partitions of the coming days. */
export interface Retention {
  /** Runs once. Concurrent calls run one after the other. */
  readonly runOnce: Effect.Effect<RetentionResult, SqlError.SqlError>
  /**
   * Maintains the partitions only, since a day's partition must exist before its first attempt. Returns how many were
   * dropped.
   */
  readonly partitions: Effect.Effect<number>
  /** Data from before this time is deleted. */
  readonly cutoff: Effect.Effect<DateTime.Utc>
  readonly worker: Worker<SqlError.SqlError, never>
}

/** Retention of the delivery log and of the channels' payloads. */
export const makeRetention = (
  sql: SqlClient.SqlClient,
  channels: ReadonlyArray<Channel>,
  { clock, now }: StoreClock["Service"],
  options: RetentionOptions
): Retention => {
  const running = Semaphore.makeUnsafe(1)
  const limits = { rows: STEP_ROWS, steps: options.steps }

  /**
   * Deletes log rows destination by destination, by ids, which start with the prefix of the destination's channel and
   * the creation time. A delivery that is still queued is removed from the queue too, because its payload goes with it.
   * Returns all deleted rows; `channel` is set for queued ones.
   */
  const deleteDeliveries = (cutoff: DateTime.Utc, org_id: OrgId | undefined) => {
    const ofOrganization = (column: string) => onlyOrganization(sql, column, org_id)
    return sql<DeletedDelivery>`
      WITH RECURSIVE destinations AS (
        (
          SELECT org_id, destination_id, delivery_id AS oldest
          FROM deliveries
          WHERE true ${ofOrganization("org_id")}
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
            ${ofOrganization("org_id")}
          ORDER BY org_id, destination_id, delivery_id
          LIMIT 1
        ) n
      ), expired AS MATERIALIZED (
        SELECT d.org_id, d.destination_id, l.delivery_id, l.status
        FROM destinations d
        CROSS JOIN LATERAL (
          SELECT delivery_id, status
          FROM deliveries l
          WHERE l.org_id = d.org_id
            AND l.destination_id = d.destination_id
            AND l.delivery_id < split_part(d.oldest, '_', 1) || '_' || ${uuidTimePrefix(cutoff)}::text
            AND l.created_at < ${DateTime.toDateUtc(cutoff)}
            ${ofOrganization("l.org_id")}
          ORDER BY delivery_id
          LIMIT ${STEP_ROWS}::int
        ) l
        LIMIT ${STEP_ROWS}::int
      ), locked AS MATERIALIZED (
        -- Queue rows are locked first and in the same order as by the statement that records results; locked rows are
        -- left to the next run.
        SELECT q.shard, q.seq
        FROM expired
        JOIN delivery_queue q
          ON q.shard = ANY(${int4Array(allShards)}::smallint[])
          AND q.org_id = expired.org_id
          AND q.destination_id = expired.destination_id
          AND q.delivery_id = expired.delivery_id
          ${ofOrganization("q.org_id")}
        WHERE expired.status = 'pending'
        ORDER BY q.shard, q.seq
        FOR UPDATE OF q SKIP LOCKED
      ), unqueued AS (
        DELETE FROM delivery_queue q
        USING locked w
        WHERE q.shard = w.shard
          AND q.seq = w.seq
          ${ofOrganization("q.org_id")}
        RETURNING q.org_id, q.destination_id, q.delivery_id, q.channel
      )
      DELETE FROM deliveries l
      USING (
        SELECT org_id, destination_id, delivery_id, NULL AS channel FROM expired WHERE status <> 'pending'
        UNION ALL
        SELECT org_id, destination_id, delivery_id, channel FROM unqueued
      ) gone
      WHERE l.org_id = gone.org_id
        AND l.destination_id = gone.destination_id
        AND l.delivery_id = gone.delivery_id
        ${ofOrganization("l.org_id")}
      RETURNING l.org_id, l.destination_id, l.delivery_id, l.event_id, gone.channel
    `.unprepared
  }

  /**
   * Deletes expired deliveries. A queued delivery has then failed, so its channel is notified as of any other
   * failure.
   */
  const removeDeliveries = (cutoff: DateTime.Utc, org_id: OrgId | undefined) =>
    transaction(
      Effect.gen(function* () {
        const deleted = yield* deleteDeliveries(cutoff, org_id)
        for (const { name, onCompleted } of channels) {
          const completed = deleted.filter(({ channel }) => channel === name).map(toExpired)
          if (completed.length === 0) continue
          yield* onCompleted?.(completed) ?? Effect.void
          yield* sql.afterCommit(Metric.update(deliveriesCompleted(name, "refused"), completed.length))
        }
        return deleted.length
      })
    ).pipe(Effect.provideService(SqlClient.SqlClient, sql))

  /** Deletes expired attempts of days without a partition of their own. */
  const removeStrays = (cutoff: DateTime.Utc) =>
    Effect.map(
      sql`
        WITH expired AS MATERIALIZED (
          SELECT org_id, destination_id, delivery_id, attempt, started_at
          FROM delivery_attempts_default
          WHERE started_at < ${DateTime.toDateUtc(cutoff)}
          LIMIT ${STEP_ROWS}::int
        )
        DELETE FROM delivery_attempts_default a
        USING expired
        WHERE a.org_id = expired.org_id
          AND a.destination_id = expired.destination_id
          AND a.delivery_id = expired.delivery_id
          AND a.attempt = expired.attempt
          AND a.started_at = expired.started_at
        RETURNING 1 AS removed
      `.unprepared,
      (rows) => rows.length
    )

  /** Deletes the health of destinations without deliveries: a last attempt may end after its destination was removed. */
  const removeHealth = Effect.map(
    sql`
      WITH unused AS MATERIALIZED (
        SELECT d.org_id, d.destination_id
        FROM delivery_destinations d
        -- One index probe per destination; as NOT EXISTS it might be planned as a scan of the whole index.
        WHERE (SELECT true FROM deliveries l WHERE l.org_id = d.org_id AND l.destination_id = d.destination_id LIMIT 1) IS NULL
        LIMIT ${STEP_ROWS}::int
      )
      DELETE FROM delivery_destinations d
      USING unused
      WHERE d.org_id = unused.org_id
        AND d.destination_id = unused.destination_id
      RETURNING 1 AS removed
    `.unprepared,
    (rows) => rows.length
  )

  const partitions = Effect.flatMap(now, (today) =>
    maintainPartitions(sql, DateTime.subtractDuration(today, options.keep), today)
  )

  let warnedOf: number | undefined

  /** Logs the longest transaction visible to this role, once. Until it ends, deliveries continue, but the tables grow. */
  const warnOfLongTransaction = Effect.gen(function* () {
    const [oldest] = yield* sql<{ readonly pid: number; readonly name: string; readonly seconds: number }>`
      SELECT pid::int AS pid, application_name AS name, extract(epoch FROM now() - xact_start)::int AS seconds
      FROM pg_stat_activity
      WHERE backend_xmin IS NOT NULL
        AND datname = current_database()
        AND xact_start < now() - ${LONG_TRANSACTION_SECONDS}::int * interval '1 second'
      ORDER BY xact_start
      LIMIT 1
    `
    const isNew = oldest?.pid !== warnedOf
    warnedOf = oldest?.pid
    if (oldest === undefined || !isNew) return
    yield* Effect.logWarning(
      `A transaction has been open for ${oldest.seconds} s; VACUUM cannot remove deleted rows until it ends`,
      { pid: oldest.pid, application_name: oldest.name }
    )
  })

  const cutoff = Effect.map(now, (time) => DateTime.subtractDuration(time, options.keep))

  const runOnce = Effect.gen(function* () {
    yield* warnOfLongTransaction

    yield* sql`DELETE FROM delivery_owners WHERE lease_until < now() - ${DEAD_DAYS}::int * interval '1 day'`
    const days = yield* partitions.pipe(
      Effect.catchCause((cause) =>
        Effect.as(
          Effect.logWarning(
            "Could not maintain delivery_attempts partitions; retrying with the next retention run",
            cause
          ),
          0
        )
      )
    )
    const before = yield* cutoff
    const strays = yield* deleteInBatches(removeStrays(before), limits)
    const deliveries = yield* deleteOfOrganizations(sql, (org_id) => removeDeliveries(before, org_id), limits)
    const health = yield* deleteInBatches(removeHealth, limits)
    const payloads = yield* Effect.forEach(channels, (channel) =>
      deleteOfOrganizations(sql, (org_id) => channel.expire(before, STEP_ROWS, org_id), limits)
    )
    return {
      deliveries: deliveries.removed,
      payloads: payloads.reduce((sum, { removed }) => sum + removed, 0),
      days,
      more: [strays, deliveries, health, ...payloads].some(({ more }) => more)
    }
  }).pipe(running.withPermits(1))

  return {
    cutoff,
    runOnce,
    partitions,
    worker: {
      name: "delivery_retention",
      runOnce: Effect.map(runOnce, ({ deliveries, more, payloads }) =>
        toWorkerRun({ removed: deliveries + payloads, more })
      ),
      every: options.every,
      clock,
      retryAfter: options.every
    }
  }
}

/** A deleted delivery; `channel` is set if it was still queued. */
interface DeletedDelivery extends DeliveryRef {
  readonly channel: string | null
}

const toExpired = (ref: DeliveryRef): CompletedDelivery => ({
  delivery: ref,
  status: "failed",
  outcome: { _tag: "Refused", error: "expired by retention" }
})
