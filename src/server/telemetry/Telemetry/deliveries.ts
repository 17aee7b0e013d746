import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../../store/Cluster.ts"
import { notFound } from "../../../api/notFound.ts"
import { NotReplayable, QueueFull } from "../../../api/Problems.ts"
import { type OrgId, TelemetryDeliveryId, type TelemetryDestinationId } from "../../../domain/Ids.ts"
import type { TelemetryDelivery } from "../../../domain/telemetry/TelemetryDestination.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import type { Audit } from "../../identity/Audit.ts"
import { atomic } from "../../store/transaction.ts"
import type { Delivery, DeliveryLogEntry } from "../../delivery/Delivery.ts"
import type { Spans } from "../Spans.ts"
import { hasDestination, lockDestinationForUpdate } from "./rows.ts"

/** The destination does not exist in this organization, or was removed. */
export const destinationNotFound = notFound("telemetry destination")

/** Maps a log record to a telemetry delivery. A batch that is being sent is still pending. */
const toTelemetryDelivery = ({
  id,
  label,
  rejected,
  size,
  status,
  status_code,
  ...row
}: DeliveryLogEntry): TelemetryDelivery => ({
  id: TelemetryDeliveryId.make(id, { disableChecks: true }),
  signal: label === "scores" ? "scores" : "spans",
  status: status === "delivering" ? "pending" : status,
  span_count: size,
  rejected_spans: rejected,
  attempts: row.attempts,
  replays: row.replays,
  http_status: status_code,
  last_error: row.last_error,
  created_at: row.created_at,
  finished_at: row.finished_at
})

/** Operations on the deliveries of a destination. Each first checks that the organization owns the destination. */
export const makeDeliveries = (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  audit: Audit["Service"],
  spans: Spans["Service"],
  queueLimit: number
) => {
  const atomically = atomic(sql)

  /**
   * Locks a batch and its destination for a replay. All transactions lock in this order, or two of them could deadlock: the log row, as
   * when results are recorded; the destination; its queue, as when batches are stored. Returns whether the destination exists.
   */
  const lockForReplay = Effect.fnUntraced(function* (
    org_id: OrgId,
    id: TelemetryDestinationId,
    delivery_id: TelemetryDeliveryId
  ) {
    yield* lockOnNode(
      sql,
      org_id,
      sql`
      SELECT 1 AS locked
      FROM deliveries
      WHERE org_id = ${org_id}
        AND destination_id = ${id}
        AND delivery_id = ${delivery_id}
      FOR UPDATE
    `
    )
    return yield* lockDestinationForUpdate(sql, org_id, id)
  })

  /**
   * Counts the spans of a batch as pending again. Fails if the batch has expired or the queue has no capacity for its
   * spans.
   */
  const countAsPending = Effect.fnUntraced(function* (
    org_id: OrgId,
    id: TelemetryDestinationId,
    delivery_id: TelemetryDeliveryId
  ) {
    const [batch] = yield* sql<{ readonly spans: number }>`
      SELECT b.spans
      FROM deliveries l
      JOIN telemetry_batches b ON b.org_id = l.org_id AND b.batch_id = l.event_id
      WHERE l.org_id = ${org_id}
        AND l.destination_id = ${id}
        AND l.delivery_id = ${delivery_id}
    `
    if (batch === undefined) {
      return yield* new NotReplayable({ detail: "The spans of this batch have expired." })
    }
    // Spans in memory will be stored, unless there is no capacity left: a replay must not take the capacity reserved
    // for them. Spans of other replicas are not known here.
    const capacity = queueLimit - spans.localCounts(org_id).waiting
    const counted = yield* sql`
      UPDATE telemetry_destinations
      SET waiting_spans = waiting_spans + ${batch.spans}::int
      WHERE org_id = ${org_id}
        AND destination_id = ${id}
        AND waiting_spans + ${batch.spans}::int <= ${capacity}::int
      RETURNING 1 AS counted
    `
    if (counted.length === 0) {
      return yield* new QueueFull({ detail: `Export queue full (limit ${queueLimit} spans).` })
    }
  })

  return {
    list: (org_id: OrgId, id: TelemetryDestinationId) =>
      Effect.gen(function* () {
        if (!(yield* Effect.orDie(hasDestination(sql, org_id, id)))) return yield* destinationNotFound
        return (yield* delivery.list(org_id, id)).map(toTelemetryDelivery)
      }),

    /** The error of the newest failed attempt after a time, even if a later attempt succeeded; null: at any time. */
    lastError: (org_id: OrgId, id: TelemetryDestinationId, after: Timestamp | null) =>
      Effect.map(
        sql<{ readonly error: string }>`
          SELECT error
          FROM delivery_attempts
          WHERE org_id = ${org_id}
            AND destination_id = ${id}
            AND error IS NOT NULL
            AND started_at > ${after === null ? "-infinity" : toDate(after)}::timestamptz
          ORDER BY started_at DESC
          LIMIT 1
        `,
        ([row]) => row?.error ?? null
      ),

    replay: (principal: Principal, id: TelemetryDestinationId, delivery_id: TelemetryDeliveryId) => {
      const { org_id } = principal
      return atomically(
        Effect.gen(function* () {
          if (!(yield* lockForReplay(org_id, id, delivery_id))) return yield* destinationNotFound
          yield* delivery.replay(org_id, id, delivery_id)
          yield* countAsPending(org_id, id, delivery_id)
          yield* audit.record(principal, "delivery.replayed", delivery_id, { destination_id: id })
        })
      )
    }
  }
}
