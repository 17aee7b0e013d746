import { floats, ints, texts } from "./Columns.ts"
import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { NotFound, NotReplayable, QueueFull } from "../../api/Problems.ts"
import { DeliveryAttempt, type DeliveryDetail, DeliveryRecord } from "../../domain/DeliveryState.ts"
import { DeliveryId, type EventId, type OrgId } from "../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../domain/Time.ts"
import { atomic } from "../Database.ts"
import type { Channel } from "./Channel.ts"
import { shardOf } from "./Shards.ts"

/** Records in a list: the latest. */
const LATEST = 50

/** Attempts shown of one delivery: the latest, ten times the default schedule. */
const ATTEMPTS = 100

/**
 * Below its capacity by more than this a destination is filled without a lock: transactions that do not see each other yet cannot
 * be as many.
 */
const CLOSE_TO_FULL = 256

/** What a delivery that found no room is recorded with. */
const QUEUE_FULL = "queue full"

/** One event for one destination. */
export interface Enqueued {
  readonly org_id: OrgId
  /** The name of a channel that the engine was given; another is a defect. */
  readonly channel: string
  readonly destination_id: string
  readonly event_id: EventId
  readonly label: string
}

/** How a destination fares. */
export interface DestinationHealth {
  readonly cooldown_until: Timestamp | null
  readonly consecutive_failures: number
  /** Deliveries that wait or are being sent. */
  readonly pending_deliveries: number
}

const Row = Schema.Struct({
  ...DeliveryRecord.fields,
  created_at: TimestampFromDate,
  finished_at: Schema.NullOr(TimestampFromDate)
})
const decodeRows = Schema.decodeUnknownEffect(Schema.Array(Row))
const decodeAttempts = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ ...DeliveryAttempt.fields, started_at: TimestampFromDate }))
)
const decodeHealth = Schema.decodeUnknownEffect(
  Schema.Array(
    Schema.Struct({
      destination_id: Schema.String,
      cooldown_until: Schema.NullOr(TimestampFromDate),
      consecutive_failures: Schema.Int,
      pending_deliveries: Schema.Int
    })
  )
)

/** The log of deliveries, and the writing end of the queue. */
export const makeLog = (
  sql: SqlClient.SqlClient,
  channels: ReadonlyMap<string, Channel>,
  clock: Effect.Effect<Timestamp>,
  isSending: (delivery_id: string) => boolean
) => {
  const atomically = atomic(sql)

  const channelOf = (name: string): Effect.Effect<Channel> => {
    const channel = channels.get(name)
    return channel === undefined
      ? Effect.die(new Error(`There is no channel ${name}`))
      : Effect.succeed(channel)
  }

  /** Holds the destination's row to the end of the transaction, made if need be: from here on its count stands still. */
  const lockDestination = (org_id: OrgId, destination_id: string) => sql`
    INSERT INTO delivery_destinations AS d (org_id, destination_id)
    VALUES (${org_id}, ${destination_id})
    ON CONFLICT (org_id, destination_id) DO UPDATE
    SET consecutive_failures = d.consecutive_failures
  `

  /** Rows in the queue, counted up to the capacity. */
  const room = (org_id: OrgId, destination_id: string, capacity: number) =>
    Effect.map(
      sql<{ readonly count: number }>`
        SELECT count(*)::int AS count
        FROM (
          SELECT 1
          FROM delivery_queue
          WHERE shard = ${shardOf(destination_id)}::smallint
            AND org_id = ${org_id}
            AND destination_id = ${destination_id}
          LIMIT ${capacity}::int
        ) q
      `.unprepared,
      (rows) => capacity - (rows[0]?.count ?? 0)
    )

  interface Made extends Enqueued {
    readonly delivery_id: DeliveryId
    readonly capacity: number
    readonly delay: number
  }

  /** Writes log and queue; of those whose destination is close to full nothing, and answers with their ids. */
  const insertRoomy = (list: ReadonlyArray<Made>, now: Timestamp) =>
    Effect.map(
      sql<{ readonly delivery_id: string }>`
        WITH wanted AS MATERIALIZED (
          SELECT w.*, waiting.count >= w.capacity - ${CLOSE_TO_FULL}::int AS tight
          FROM unnest(
            ${ints(list.map((one) => shardOf(one.destination_id)))}::smallint[],
            ${texts(list.map((one) => one.org_id))}::text[],
            ${texts(list.map((one) => one.destination_id))}::text[],
            ${texts(list.map((one) => one.delivery_id))}::text[],
            ${texts(list.map((one) => one.channel))}::text[],
            ${texts(list.map((one) => one.event_id))}::text[],
            ${texts(list.map((one) => one.label))}::text[],
            ${ints(list.map((one) => one.capacity))}::int[],
            ${floats(list.map((one) => one.delay))}::float8[]
          ) AS w (shard, org_id, destination_id, delivery_id, channel, event_id, label, capacity, delay)
          CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM (
              SELECT 1
              FROM delivery_queue q
              WHERE q.shard = w.shard
                AND q.org_id = w.org_id
                AND q.destination_id = w.destination_id
              LIMIT greatest(0, w.capacity - ${CLOSE_TO_FULL}::int)
            ) c
          ) waiting
        ), logged AS (
          INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
          SELECT org_id, destination_id, delivery_id, channel, event_id, label, 'pending', ${toDate(now)}::timestamptz
          FROM wanted
          WHERE NOT tight
        ), queued AS (
          INSERT INTO delivery_queue
            (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, round_start)
          SELECT
            shard, org_id, destination_id, delivery_id, channel, event_id,
            now() + delay * interval '1 millisecond', 0, 0
          FROM wanted
          WHERE NOT tight
        )
        SELECT delivery_id
        FROM wanted
        WHERE tight
      `,
      (rows) => new Set(rows.map((row) => row.delivery_id))
    )

  /** The same under the destination's lock, and past the capacity as failed. */
  const insertTight = Effect.fnUntraced(function* (list: Arr.NonEmptyReadonlyArray<Made>, now: Timestamp) {
    const { capacity, destination_id, org_id } = list[0]
    yield* lockDestination(org_id, destination_id)
    const free = yield* room(org_id, destination_id, capacity)
    for (const [index, one] of list.entries()) {
      const queued = index < free
      yield* sql`
        INSERT INTO deliveries
          (org_id, destination_id, delivery_id, channel, event_id, label, status, last_error, created_at, finished_at)
        VALUES (
          ${org_id}, ${destination_id}, ${one.delivery_id}, ${one.channel}, ${one.event_id}, ${one.label},
          ${queued ? "pending" : "failed"}, ${queued ? null : QUEUE_FULL}, ${toDate(now)}, ${queued ? null : toDate(now)}
        )
      `
      if (!queued) continue
      yield* sql`
        INSERT INTO delivery_queue
          (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, round_start)
        VALUES (
          ${shardOf(destination_id)}::smallint, ${org_id}, ${destination_id}, ${one.delivery_id}, ${one.channel},
          ${one.event_id}, now() + ${one.delay}::float8 * interval '1 millisecond', 0, 0
        )
      `
    }
  })

  const enqueue = Effect.fnUntraced(function* (list: ReadonlyArray<Enqueued>) {
    if (list.length === 0) return
    const now = yield* clock
    const made = yield* Effect.forEach(list, (one) =>
      Effect.gen(function* () {
        const { policy } = yield* channelOf(one.channel)
        const delivery_id = yield* DeliveryId.generate
        return { ...one, delivery_id, capacity: policy.capacity, delay: policy.retry.delays[0] ?? 0 }
      })
    )
    const tight = yield* insertRoomy(made, now)
    if (tight.size === 0) return
    const byDestination = Object.values(
      Arr.groupBy(
        made.filter((one) => tight.has(one.delivery_id)),
        (one) => one.destination_id
      )
    )
    // Locks are taken in one order everywhere, or two transactions could wait for each other.
    byDestination.sort((a, b) => (a[0].destination_id < b[0].destination_id ? -1 : 1))
    for (const destination of byDestination) yield* insertTight(destination, now)
  })

  const columns = sql.literal(
    "delivery_id AS id, event_id, label, status, attempts, replays, last_error, created_at, finished_at"
  )

  const shown = (row: typeof Row.Type): DeliveryRecord =>
    row.status === "pending" && isSending(row.id) ? { ...row, status: "delivering" } : row

  const list = Effect.fn("Delivery.list")(function* (org_id: OrgId, destination_id: string) {
    const rows = yield* sql`
      SELECT ${columns}
      FROM deliveries
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
      ORDER BY delivery_id DESC
      LIMIT ${LATEST}
    `
    return (yield* decodeRows(rows)).map(shown)
  }, Effect.orDie)

  const get = Effect.fn("Delivery.get")(function* (
    org_id: OrgId,
    destination_id: string,
    delivery_id: DeliveryId
  ) {
    const rows = yield* Effect.orDie(
      Effect.flatMap(
        sql`
          SELECT ${columns}
          FROM deliveries
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ${delivery_id}
        `,
        decodeRows
      )
    )
    const row = rows[0]
    if (row === undefined) return yield* notFound
    const attempts = yield* Effect.orDie(
      Effect.flatMap(
        sql`
          SELECT attempt, started_at, duration_ms, status, error
          FROM delivery_attempts
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ${delivery_id}
          ORDER BY attempt DESC
          LIMIT ${ATTEMPTS}
        `,
        decodeAttempts
      )
    )
    const detail: DeliveryDetail = { ...shown(row), attempt_log: attempts.toReversed() }
    return detail
  })

  /** Failed deliveries become pending again, each with the whole schedule before it. */
  const requeue = (org_id: OrgId, destination_id: string, ids: ReadonlyArray<string>) =>
    Effect.map(
      sql`
        WITH again AS (
          UPDATE deliveries
          SET status = 'pending', replays = replays + 1, finished_at = NULL
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ANY(${texts(ids)}::text[])
            AND status = 'failed'
          RETURNING delivery_id, channel, event_id, attempts
        )
        INSERT INTO delivery_queue
          (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, round_start)
        SELECT
          ${shardOf(destination_id)}::smallint, ${org_id}, ${destination_id}, delivery_id, channel, event_id,
          now(), attempts, attempts
        FROM again
        ORDER BY delivery_id
        RETURNING 1 AS queued
      `,
      (rows) => rows.length
    )

  const replay = Effect.fn("Delivery.replay")(function* (
    org_id: OrgId,
    destination_id: string,
    delivery_id: DeliveryId
  ) {
    yield* atomically(
      Effect.gen(function* () {
        yield* lockDestination(org_id, destination_id)
        const rows = yield* sql<{ readonly status: string; readonly channel: string }>`
          SELECT status, channel
          FROM deliveries
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ${delivery_id}
          FOR UPDATE
        `
        const row = rows[0]
        if (row === undefined) return yield* notFound
        if (row.status !== "failed") {
          return yield* new NotReplayable({ detail: `A delivery that is ${row.status} is not replayed` })
        }
        const { policy } = yield* channelOf(row.channel)
        if ((yield* room(org_id, destination_id, policy.capacity)) <= 0) {
          return yield* new QueueFull({
            detail: `${policy.capacity} deliveries wait for this destination already`
          })
        }
        yield* requeue(org_id, destination_id, [delivery_id])
      })
    )
  })

  const replayWindow = Effect.fn("Delivery.replayWindow")(function* (
    org_id: OrgId,
    destination_id: string,
    window: { readonly since: Timestamp; readonly until: Timestamp | null }
  ) {
    return yield* atomically(
      Effect.gen(function* () {
        yield* lockDestination(org_id, destination_id)
        const inWindow = sql`
          org_id = ${org_id}
          AND destination_id = ${destination_id}
          AND status = 'failed'
          AND created_at >= ${toDate(window.since)}
          AND (created_at < ${window.until === null ? null : toDate(window.until)}::timestamptz) IS NOT FALSE
        `
        const counted = yield* sql<{ readonly count: number; readonly channel: string | null }>`
          SELECT count(*)::int AS count, min(channel) AS channel
          FROM deliveries
          WHERE ${inWindow}
        `
        const { channel, count } = counted[0] ?? { channel: null, count: 0 }
        if (channel === null) return { queued: 0, skipped: 0 }
        const { policy } = yield* channelOf(channel)
        const free = yield* room(org_id, destination_id, policy.capacity)
        const rows = yield* sql<{ readonly delivery_id: string }>`
          SELECT delivery_id
          FROM deliveries
          WHERE ${inWindow}
          ORDER BY delivery_id
          LIMIT ${Math.max(0, free)}::int
        `
        const queued = yield* requeue(
          org_id,
          destination_id,
          rows.map((row) => row.delivery_id)
        )
        return { queued, skipped: Math.max(0, count - queued) }
      })
    )
  })

  const health = Effect.fn("Delivery.health")(function* (org_id: OrgId, ids: ReadonlyArray<string>) {
    const rows = yield* sql`
      SELECT
        l.destination_id,
        CASE WHEN d.cooldown_until > now() THEN d.cooldown_until END AS cooldown_until,
        coalesce(d.consecutive_failures, 0) AS consecutive_failures,
        waiting.count AS pending_deliveries
      FROM unnest(${ints(ids.map(shardOf))}::smallint[], ${texts(ids)}::text[]) AS l (shard, destination_id)
      LEFT JOIN delivery_destinations d ON d.org_id = ${org_id} AND d.destination_id = l.destination_id
      CROSS JOIN LATERAL (
        SELECT count(*)::int AS count
        FROM delivery_queue q
        WHERE q.shard = l.shard
          AND q.org_id = ${org_id}
          AND q.destination_id = l.destination_id
      ) waiting
    `.unprepared
    const found = yield* decodeHealth(rows)
    return new Map(
      found.map(({ destination_id, ...fares }): readonly [string, DestinationHealth] => [
        destination_id,
        fares
      ])
    )
  }, Effect.orDie)

  const discard = Effect.fnUntraced(function* (org_id: OrgId, destination_id: string) {
    const now = yield* clock
    yield* sql`
      WITH gone AS (
        DELETE FROM delivery_queue
        WHERE shard = ${shardOf(destination_id)}::smallint
          AND org_id = ${org_id}
          AND destination_id = ${destination_id}
        RETURNING delivery_id
      )
      UPDATE deliveries d
      SET status = 'failed', last_error = 'the destination was removed', finished_at = ${toDate(now)}::timestamptz
      FROM gone
      WHERE d.org_id = ${org_id}
        AND d.destination_id = ${destination_id}
        AND d.delivery_id = gone.delivery_id
    `
    yield* sql`
      DELETE FROM delivery_destinations
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
    `
  })

  return { enqueue, list, get, replay, replayWindow, health, discard }
}

const notFound = new NotFound({ detail: "There is no such delivery" })

export type Log = ReturnType<typeof makeLog>
