import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { NotFound, NotReplayable, QueueFull } from "../../../api/Problems.ts"
import { type OrgId, TelemetryDeliveryId, type TelemetryDestinationId } from "../../../domain/Ids.ts"
import type { TelemetryDelivery } from "../../../domain/telemetry/TelemetryDestination.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Audit } from "../../identity/Audit.ts"
import { atomic } from "../../store/Database/transaction.ts"
import type { Delivery, DeliveryLogEntry } from "../../delivery/Delivery.ts"
import { hasDestination, lockDestinationForUpdate } from "./rows.ts"

/** There is no such destination in the organization, or there is none any more. */
export const destinationNotFound = new NotFound({
  detail: "There is no such destination in this organization"
})

/** A batch as it is shown. One that is being sent at this moment is still pending. */
const toTelemetryDelivery = ({
  id,
  rejected,
  size,
  status,
  status_code,
  ...row
}: DeliveryLogEntry): TelemetryDelivery => ({
  id: TelemetryDeliveryId.make(id, { disableChecks: true }),
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

/** What a destination's owner does with its batches. Each asks first whether the destination is the organization's. */
export const makeDeliveries = (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  audit: Audit["Service"],
  queueLimit: number
) => {
  const atomically = atomic(sql)

  /**
   * Holds a batch and its destination, in the order of all who hold several of these: the log row as where results are written down, the
   * destination, and only then its queue, as where batches are written. Else two could wait for each other. Whether the
   * destination is there.
   */
  const lockForReplay = Effect.fnUntraced(function* (
    org_id: OrgId,
    id: TelemetryDestinationId,
    delivery_id: TelemetryDeliveryId
  ) {
    yield* sql`
      SELECT 1 AS held
      FROM deliveries
      WHERE org_id = ${org_id}
        AND destination_id = ${id}
        AND delivery_id = ${delivery_id}
      FOR UPDATE
    `
    return yield* lockDestinationForUpdate(sql, org_id, id)
  })

  /** The spans of a batch wait again: there must be room for them, and they must be kept. */
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
      return yield* new NotReplayable({ detail: "The spans of this batch are not kept any more" })
    }
    const counted = yield* sql`
      UPDATE telemetry_destinations
      SET waiting_spans = waiting_spans + ${batch.spans}::int
      WHERE org_id = ${org_id}
        AND destination_id = ${id}
        AND waiting_spans + ${batch.spans}::int <= ${queueLimit}::int
      RETURNING 1 AS counted
    `
    if (counted.length === 0) {
      return yield* new QueueFull({ detail: `${queueLimit} spans may wait, and there is no room for these` })
    }
  })

  return {
    list: (org_id: OrgId, id: TelemetryDestinationId) =>
      Effect.gen(function* () {
        if (!(yield* Effect.orDie(hasDestination(sql, org_id, id)))) return yield* destinationNotFound
        return (yield* delivery.list(org_id, id)).map(toTelemetryDelivery)
      }),

    /** What went wrong last, as long as attempts are kept: also where a later one succeeded. */
    lastError: (org_id: OrgId, id: TelemetryDestinationId) =>
      Effect.map(
        sql<{ readonly error: string }>`
          SELECT error
          FROM delivery_attempts
          WHERE org_id = ${org_id}
            AND destination_id = ${id}
            AND error IS NOT NULL
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
