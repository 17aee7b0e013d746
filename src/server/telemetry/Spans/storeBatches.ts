import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../../store/Cluster.ts"
import { EventId, OrgId, TelemetryDestinationId } from "../../../domain/Ids.ts"
import { ScoreFormat, TraceMode } from "../../../domain/telemetry/TelemetryDestination.ts"
import { transaction } from "../../store/transaction.ts"
import type { Delivery } from "../../delivery/Delivery.ts"
import { onlyOrganization, sameOrganization } from "../../store/onlyOrganization.ts"
import { int8Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import type { Place, SecretBox } from "../../secrets/SecretBox.ts"
import type { SpanBatch, OrgBuffer } from "./OrgBuffer.ts"
import type { RecentPayload, RecentPayloads } from "./RecentPayloads.ts"

/** The channel name of span deliveries. */
export const OTLP = "otlp"

/** The place of a sealed payload, which is authenticated with it (AEAD). */
export const payloadPlace = (org_id: string, batch_id: string): Place => ({
  org_id,
  table: "telemetry_batches",
  row_id: batch_id,
  column: "payload"
})

/** Bytes sealed before yielding to other fibers: a fifth of a millisecond. */
const SEAL_BYTES = 128 * 1024

/** Reads the destinations of these organizations. */
export const findDestinations = (sql: SqlClient.SqlClient, org_ids: ReadonlyArray<OrgId>) =>
  destinationRows.all(sql`
    SELECT org_id, destination_id, content, trace, scores, waiting_spans::float8 AS waiting_spans
    FROM telemetry_destinations
    WHERE org_id = ANY(${textArray(org_ids)}::text[])
  `)

const FoundDestination = Schema.Struct({
  org_id: OrgId,
  destination_id: TelemetryDestinationId,
  content: Schema.Boolean,
  trace: TraceMode,
  scores: ScoreFormat,
  waiting_spans: Schema.Int
})
const destinationRows = rowsOf(FoundDestination)

/**
 * Stores batches as deliveries in one transaction that locks their destinations, so that pending spans are counted
 * correctly over all replicas and never exceed `queueLimit`. A batch without capacity is dropped and counted. Also adds
 * the spans that were dropped before. Returns the buffers whose destination is gone, and the pending spans of each.
 */
export const storeBatches = Effect.fnUntraced(function* (
  deps: {
    readonly sql: SqlClient.SqlClient
    readonly box: SecretBox["Service"]
    readonly delivery: Delivery["Service"]
    readonly recentPayloads: RecentPayloads["Service"]
    readonly queueLimit: number
  },
  batches: ReadonlyArray<SpanBatch>,
  drops: ReadonlyMap<OrgBuffer, number>
) {
  const { box, delivery, queueLimit, recentPayloads, sql } = deps
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
  const buffers = new Set([...batches.map(({ buffer }) => buffer), ...drops.keys()])
  const organization = sameOrganization(buffers)
  return yield* transaction(
    Effect.gen(function* () {
      const destinationsOf = destinationRows.all(sql`
        SELECT org_id, destination_id, content, trace, scores, waiting_spans::float8 AS waiting_spans
        FROM telemetry_destinations
        WHERE org_id = ANY(${textArray([...buffers].map(({ org_id }) => org_id))}::text[])
          ${onlyOrganization(sql, "org_id", organization)}
        ORDER BY org_id
        FOR NO KEY UPDATE
      `)
      const locked = yield* organization === undefined
        ? destinationsOf
        : lockOnNode(sql, organization, destinationsOf)
      const destinations = new Map(locked.map((row) => [row.destination_id, row]))
      const gone = [...buffers].filter(({ destination_id }) => !destinations.has(destination_id))
      const counts = new Map(
        locked.map((row) => [row.destination_id, { org_id: row.org_id, waiting: 0, dropped: 0 }])
      )
      const capacity = new Map(locked.map((row) => [row.destination_id, queueLimit - row.waiting_spans]))
      const queued = sealed.filter(({ batch: { buffer, spans } }) => {
        const count = counts.get(buffer.destination_id)
        if (count === undefined) return false
        const free = capacity.get(buffer.destination_id) ?? 0
        if (spans > free) {
          count.dropped += spans
          return false
        }
        capacity.set(buffer.destination_id, free - spans)
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
            ${onlyOrganization(sql, "d.org_id", organization)}
        `
      }
      if (Arr.isArrayNonEmpty(queued)) {
        // Registered before the engine's own hook, so that the first attempt finds the payload in memory instead of
        // reading it.
        const recent: Array<{ readonly batch_id: EventId; readonly payload: RecentPayload }> = []
        yield* sql.afterCommit(
          Effect.sync(() => {
            for (const { batch_id, payload } of recent) recentPayloads.keep(batch_id, payload)
          })
        )
        const delivery_ids = yield* delivery.enqueue(
          queued.map(({ batch, batch_id }) => ({
            org_id: batch.buffer.org_id,
            channel: OTLP,
            destination_id: batch.buffer.destination_id,
            event_id: batch_id,
            label: batch.signal,
            size: batch.spans
          }))
        )
        const rows = Arr.map(queued, ({ batch, batch_id, payload }, index) => ({
          org_id: batch.buffer.org_id,
          batch_id,
          destination_id: batch.buffer.destination_id,
          delivery_id: delivery_ids[index] ?? null,
          signal: batch.signal,
          spans: batch.spans,
          payload
        }))
        // One statement: all its rows have the same version.
        const [stored] = yield* sql<{ readonly version: string }>`
          INSERT INTO telemetry_batches ${sql.insert(rows)}
          RETURNING xmin::text AS version
        `
        if (stored !== undefined) {
          const { version } = stored
          for (const { batch, batch_id } of queued) {
            recent.push({ batch_id, payload: { request: batch.request, version } })
          }
        }
      }
      return {
        gone,
        waiting: new Map(
          [...buffers].map((buffer) => [
            buffer,
            (destinations.get(buffer.destination_id)?.waiting_spans ?? 0) +
              (counts.get(buffer.destination_id)?.waiting ?? 0)
          ])
        )
      }
    })
  )
})
