import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { EventId, OrgId, TelemetryDestinationId } from "../../../domain/Ids.ts"
import { transaction } from "../../store/Database/transaction.ts"
import type { Delivery } from "../../delivery/Delivery.ts"
import { int8Array, textArray } from "../../store/pgArrays.ts"
import type { Place, SecretBox } from "../../secrets/SecretBox.ts"
import type { SpanBatch, OrgBuffer } from "./OrgBuffer.ts"
import type { RecentPayloads } from "./RecentPayloads.ts"

/** The name that deliveries of spans carry. */
export const OTLP = "otlp"

/** Where a sealed payload belongs. */
export const payloadPlace = (org_id: string, batch_id: string): Place => ({
  org_id,
  table: "telemetry_batches",
  row_id: batch_id,
  column: "payload"
})

/** Bytes that are sealed before others have their turn: a fifth of a millisecond. */
const SEAL_BYTES = 128 * 1024

/** Which of these organizations have a destination. */
export const findDestinations = (sql: SqlClient.SqlClient, org_ids: ReadonlyArray<OrgId>) =>
  Effect.flatMap(
    sql`
      SELECT org_id, destination_id, content, waiting_spans::float8 AS waiting_spans
      FROM telemetry_destinations
      WHERE org_id = ANY(${textArray(org_ids)}::text[])
    `,
    decodeFound
  )

const FoundDestination = Schema.Struct({
  org_id: OrgId,
  destination_id: TelemetryDestinationId,
  content: Schema.Boolean,
  waiting_spans: Schema.Int
})
const decodeFound = Schema.decodeUnknownEffect(Schema.Array(FoundDestination))

/**
 * Writes batches as deliveries, in one transaction that holds their destinations: so their spans are counted as waiting while they do, on
 * whichever replica, and never more than `queueLimit`; a batch that finds no room is dropped and counted. The counts of spans that were
 * dropped before are added too. Answers with the outboxes whose destination is gone, and what waits for each now.
 */
export const storeBatches = Effect.fnUntraced(function* (
  needs: {
    readonly sql: SqlClient.SqlClient
    readonly box: SecretBox["Service"]
    readonly delivery: Delivery["Service"]
    readonly written: RecentPayloads["Service"]
    readonly queueLimit: number
  },
  batches: ReadonlyArray<SpanBatch>,
  drops: ReadonlyMap<OrgBuffer, number>
) {
  const { box, delivery, queueLimit, sql, written } = needs
  let since = 0
  const sealed = yield* Effect.forEach(batches, (batch) =>
    Effect.gen(function* () {
      const batch_id = yield* EventId.generate
      const place = payloadPlace(batch.buffer.org_id, batch_id)
      const payload = yield* box.sealBytes(place, batch.request)
      since += payload.length
      if (since > SEAL_BYTES) {
        since = 0
        yield* Effect.yieldNow
      }
      return { batch, batch_id, payload }
    })
  )
  const outboxes = new Set([...batches.map(({ buffer }) => buffer), ...drops.keys()])
  return yield* transaction(
    Effect.gen(function* () {
      const held = yield* Effect.flatMap(
        sql`
          SELECT org_id, destination_id, content, waiting_spans::float8 AS waiting_spans
          FROM telemetry_destinations
          WHERE org_id = ANY(${textArray([...outboxes].map(({ org_id }) => org_id))}::text[])
          ORDER BY org_id
          FOR NO KEY UPDATE
        `,
        decodeFound
      )
      const destinations = new Map(held.map((row) => [row.destination_id, row]))
      const gone = [...outboxes].filter(({ destination_id }) => !destinations.has(destination_id))
      const counts = new Map(
        held.map((row) => [row.destination_id, { org_id: row.org_id, waiting: 0, dropped: 0 }])
      )
      const room = new Map(held.map((row) => [row.destination_id, queueLimit - row.waiting_spans]))
      const queued = sealed.filter(({ batch: { buffer, spans } }) => {
        const count = counts.get(buffer.destination_id)
        if (count === undefined) return false
        const free = room.get(buffer.destination_id) ?? 0
        if (spans > free) {
          count.dropped += spans
          return false
        }
        room.set(buffer.destination_id, free - spans)
        count.waiting += spans
        return true
      })
      for (const [buffer, spans] of drops) {
        const count = counts.get(buffer.destination_id)
        if (count !== undefined) count.dropped += spans
      }
      const changed = [...counts.values()].filter(({ dropped, waiting }) => dropped > 0 || waiting > 0)
      if (changed.length > 0) {
        yield* sql`
          UPDATE telemetry_destinations d
          SET
            waiting_spans = d.waiting_spans + c.waiting,
            dropped_spans = d.dropped_spans + c.dropped
          FROM unnest(
            ${textArray(changed.map(({ org_id }) => org_id))}::text[],
            ${int8Array(changed.map(({ waiting }) => waiting))}::bigint[],
            ${int8Array(changed.map(({ dropped }) => dropped))}::bigint[]
          ) AS c (org_id, waiting, dropped)
          WHERE d.org_id = c.org_id
        `
      }
      if (Arr.isArrayNonEmpty(queued)) {
        // Before the engine hears of them, which then need not read what is sent at once.
        yield* sql.afterCommit(
          Effect.sync(() => {
            for (const { batch, batch_id } of queued) written.keep(batch_id, batch.request)
          })
        )
        const delivery_ids = yield* delivery.enqueue(
          queued.map(({ batch, batch_id }) => ({
            org_id: batch.buffer.org_id,
            channel: OTLP,
            destination_id: batch.buffer.destination_id,
            event_id: batch_id,
            label: "spans",
            size: batch.spans
          }))
        )
        yield* sql`INSERT INTO telemetry_batches ${sql.insert(
          Arr.map(queued, ({ batch, batch_id, payload }, index) => ({
            org_id: batch.buffer.org_id,
            batch_id,
            destination_id: batch.buffer.destination_id,
            delivery_id: delivery_ids[index] ?? null,
            spans: batch.spans,
            payload
          }))
        )}`
      }
      return {
        gone,
        waiting: new Map(
          [...outboxes].map((buffer) => [
            buffer,
            (destinations.get(buffer.destination_id)?.waiting_spans ?? 0) +
              (counts.get(buffer.destination_id)?.waiting ?? 0)
          ])
        )
      }
    })
  )
})
