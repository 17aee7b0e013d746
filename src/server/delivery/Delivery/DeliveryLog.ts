import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import { DeliveryAttempt } from "../../../domain/delivery/DeliveryState.ts"
import { EventId, type OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate } from "../../../domain/Time.ts"
import { currentTime } from "../../store/currentTime.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { shardOf } from "./shardOf.ts"

/** Records in a list. */
const LATEST = 50

/** Attempts returned with one delivery: the latest, ten times the default schedule. */
const ATTEMPTS = 100

/** The health of a destination. */
export interface DestinationHealth {
  readonly cooldown_until: Timestamp | null
  readonly consecutive_failures: number
  /** When its attempts began to fail. Null if the last attempt succeeded. */
  readonly failing_since: Timestamp | null
  /** Deliveries that are queued or being sent. */
  readonly pending_deliveries: number
}

/** A log record of a delivery of any channel. Notifications and telemetry map it to records of their own. */
export const DeliveryLogEntry = Schema.Struct({
  id: Schema.String,
  event_id: EventId,
  label: Schema.String,
  /** How much the delivery carries, in the channel's own unit. */
  size: Schema.Int,
  status: Schema.Literals(["pending", "delivering", "delivered", "partial", "failed"]),
  attempts: Schema.Int,
  replays: Schema.Int,
  /** How much of `size` the peer rejected. */
  rejected: Schema.Int,
  /** The status of the peer's last response, in the channel's protocol. */
  status_code: Schema.NullOr(Schema.Int),
  last_error: Schema.NullOr(Schema.String),
  created_at: TimestampFromDate,
  finished_at: Schema.NullOr(TimestampFromDate)
})
export type DeliveryLogEntry = typeof DeliveryLogEntry.Type

/** A log record with the latest hundred attempts, oldest first. */
export interface DeliveryLogDetail extends DeliveryLogEntry {
  readonly attempt_log: ReadonlyArray<DeliveryAttempt>
}

const entryRows = rowsOf(DeliveryLogEntry)
const attemptRows = rowsOf(Schema.Struct({ ...DeliveryAttempt.fields, started_at: TimestampFromDate }))
const nextAttemptRows = rowsOf(Schema.Struct({ delivery_id: Schema.String, due_at: TimestampFromDate }))
const healthRows = rowsOf(
  Schema.Struct({
    destination_id: Schema.String,
    cooldown_until: Schema.NullOr(TimestampFromDate),
    consecutive_failures: Schema.Int,
    failing_since: Schema.NullOr(TimestampFromDate),
    pending_deliveries: Schema.Int
  })
)
const oldestRows = rowsOf(Schema.Struct({ destination_id: Schema.String, created_at: TimestampFromDate }))

/** Reads the delivery log. `isSending`: whether this replica has an attempt at a delivery in flight. */
export const makeDeliveryLog = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  isSending: (delivery_id: string) => boolean
) => {
  const columns = sql.literal(
    "delivery_id AS id, event_id, label, size, status, attempts, replays, rejected, status_code, last_error, created_at, finished_at"
  )

  const withSendingStatus = (row: DeliveryLogEntry): DeliveryLogEntry =>
    row.status === "pending" && isSending(row.id) ? { ...row, status: "delivering" } : row

  const list = Effect.fn("Delivery.list")(function* (org_id: OrgId, destination_id: string) {
    const entries = yield* entryRows.all(sql`
      SELECT ${columns}
      FROM deliveries
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
      ORDER BY delivery_id DESC
      LIMIT ${LATEST}
    `)
    return entries.map(withSendingStatus)
  }, Effect.orDie)

  const get = Effect.fn("Delivery.get")(function* (
    org_id: OrgId,
    destination_id: string,
    delivery_id: string
  ) {
    const entry = yield* Effect.orDie(
      entryRows.first(
        sql`
          SELECT ${columns}
          FROM deliveries
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ${delivery_id}
        `
      )
    )
    if (entry === undefined) return yield* notFound("delivery")
    const attempts = yield* Effect.orDie(
      attemptRows.all(
        sql`
          SELECT attempt, started_at, duration_ms, status, error
          FROM delivery_attempts
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ${delivery_id}
          ORDER BY attempt DESC
          LIMIT ${ATTEMPTS}
        `
      )
    )
    return { ...withSendingStatus(entry), attempt_log: attempts.toReversed() } satisfies DeliveryLogDetail
  })

  const health = Effect.fn("Delivery.health")(function* (org_id: OrgId, ids: ReadonlyArray<string>) {
    const rows = yield* healthRows.all(
      sql`
      SELECT
        l.destination_id,
        CASE WHEN d.cooldown_until > ${currentTime(sql, clock)} THEN d.cooldown_until END AS cooldown_until,
        coalesce(d.consecutive_failures, 0) AS consecutive_failures,
        d.failing_since,
        waiting.count AS pending_deliveries
      FROM unnest(${int4Array(ids.map(shardOf))}::smallint[], ${textArray(ids)}::text[]) AS l (shard, destination_id)
      LEFT JOIN delivery_destinations d ON d.org_id = ${org_id} AND d.destination_id = l.destination_id
      CROSS JOIN LATERAL (
        SELECT count(*)::int AS count
        FROM delivery_queue q
        WHERE q.shard = l.shard
          AND q.org_id = ${org_id}
          AND q.destination_id = l.destination_id
      ) waiting
    `.unprepared
    )
    return new Map(
      rows.map(({ destination_id, ...health }): readonly [string, DestinationHealth] => [
        destination_id,
        health
      ])
    )
  }, Effect.orDie)

  const oldestWaiting = Effect.fn("Delivery.oldestWaiting")(function* (
    org_id: OrgId,
    ids: ReadonlyArray<string>
  ) {
    if (ids.length === 0) return new Map<string, Timestamp>()
    const rows = yield* oldestRows.all(
      sql`
      SELECT l.destination_id, d.created_at
      FROM unnest(${int4Array(ids.map(shardOf))}::smallint[], ${textArray(ids)}::text[]) AS l (shard, destination_id)
      CROSS JOIN LATERAL (
        -- Ids are in the order of creation.
        SELECT min(delivery_id) AS delivery_id
        FROM delivery_queue q
        WHERE q.shard = l.shard
          AND q.org_id = ${org_id}
          AND q.destination_id = l.destination_id
      ) oldest
      JOIN deliveries d
        ON d.org_id = ${org_id}
        AND d.destination_id = l.destination_id
        AND d.delivery_id = oldest.delivery_id
    `.unprepared
    )
    return new Map(rows.map(({ created_at, destination_id }) => [destination_id, created_at] as const))
  }, Effect.orDie)

  const nextAttempts = Effect.fn("Delivery.nextAttempts")(function* (
    org_id: OrgId,
    pending: ReadonlyArray<{ readonly destination_id: string; readonly delivery_id: string }>
  ) {
    if (pending.length === 0) return new Map<string, Timestamp>()
    const destinations = [...new Set(pending.map((one) => one.destination_id))]
    const rows = yield* nextAttemptRows.all(sql`
      SELECT q.delivery_id, greatest(q.due_at, d.cooldown_until) AS due_at
      FROM unnest(${int4Array(destinations.map(shardOf))}::smallint[], ${textArray(destinations)}::text[]) AS l (shard, destination_id)
      JOIN delivery_queue q
        ON q.shard = l.shard
        AND q.org_id = ${org_id}
        AND q.destination_id = l.destination_id
        AND q.delivery_id = ANY(${textArray(pending.map((one) => one.delivery_id))}::text[])
      LEFT JOIN delivery_destinations d ON d.org_id = ${org_id} AND d.destination_id = l.destination_id
    `)
    return new Map(rows.map(({ delivery_id, due_at }): [string, Timestamp] => [delivery_id, due_at]))
  }, Effect.orDie)

  return { list, get, health, oldestWaiting, nextAttempts }
}
