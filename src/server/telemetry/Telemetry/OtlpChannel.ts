import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { CooldownPolicy } from "../../../domain/delivery/Cooldown.ts"
import { TelemetryDeliveryId } from "../../../domain/Ids.ts"
import { exponentialRetryPolicy } from "../../../domain/delivery/RetryPolicy.ts"
import { type Channel, type ChannelPolicy, type CompletedDelivery } from "../../delivery/Delivery.ts"
import { type DeliveryRef, refuse } from "../../delivery/Delivery/Channel.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import { deliveryRefRows } from "../../delivery/Delivery/deliveryRefRows.ts"
import { Egress } from "../../egress/Egress.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { OTLP, payloadPlace } from "../Spans/storeBatches.ts"
import { RecentPayloads } from "../Spans/RecentPayloads.ts"
import { makeStatementBatcher } from "../../store/Database/makeStatementBatcher.ts"
import { EXPORT_MILLIS, unsealAddress, sendSpans } from "./sendSpans.ts"

/** OTLP/HTTP's own way to retry, with the numbers of the contract: 1 s × 1.5 up to 30 s, ±50 %, 5 minutes in all. */
export const exportRetries = exponentialRetryPolicy({
  firstMillis: 1_000,
  factor: 1.5,
  longestMillis: 30_000,
  maxElapsedMillis: 300_000,
  jitter: 0.5
})

/** Batches whose payload is read in one statement: each can have a few hundred kilobytes. */
const LOAD_BATCH = 8

/**
 * Requests to one collector at once, and to all collectors from one process. A collector that hangs has eight for ten seconds, and one from
 * then on: those of a hundred organizations leave room for the others. Each holds its batch, which is 1 MiB before it is compressed and
 * a quarter of that after, as a rule less: 32 MiB if all are taken.
 */
const CONCURRENCY = 8
const SLOTS = 128

/** Failures in a row after which a collector is sent one request at a time, until it takes one. It is never left alone for a while. */
const cooldown: CooldownPolicy = { failureThreshold: 5, firstMillis: 0, longestMillis: 0 }

interface LoadedBatch {
  /** Null where the request is at hand, or the batch is not kept. */
  readonly payload: Uint8Array | null
  readonly spans: number | null
  readonly url: Uint8Array | null
  readonly headers: Uint8Array | null
}

/**
 * Batches of spans: the channel of telemetry. A collector is never left alone for a while: each batch has its five minutes, and what
 * fails is kept, while spans that find no room are lost.
 */
export const make = Effect.fnUntraced(function* (options: { readonly queueLimit?: number } = {}) {
  const sql = yield* SqlClient.SqlClient
  const egress = yield* Egress
  const box = yield* SecretBox
  const written = yield* RecentPayloads
  const policy: ChannelPolicy = {
    retry: exportRetries,
    cooldown,
    // Of batches; what limits them is their spans, of which each has one at least.
    queueLimit: options.queueLimit ?? 10_000,
    concurrency: CONCURRENCY,
    slots: SLOTS,
    deadlineMillis: EXPORT_MILLIS
  }

  const read = yield* makeStatementBatcher({
    maxBatch: LOAD_BATCH,
    run: (refs: ReadonlyArray<DeliveryRef>) => {
      const requests = refs.map(({ event_id }) => written.take(event_id))
      const here = requests.flatMap((request, index) => (request === undefined ? [] : [index + 1]))
      return Effect.map(
        sql<LoadedBatch>`
          SELECT
            b.spans, d.url, d.headers,
            CASE WHEN i.number::int = ANY(${int4Array(here)}::int[]) THEN NULL ELSE b.payload END AS payload
          FROM ${deliveryRefRows(sql, refs)}
          LEFT JOIN telemetry_destinations d ON d.org_id = i.org_id AND d.destination_id = i.destination_id
          LEFT JOIN telemetry_batches b ON b.org_id = i.org_id AND b.batch_id = i.event_id
          ORDER BY i.number
        `,
        (rows) => rows.map((row, index) => ({ ...row, request: requests[index] }))
      )
    }
  })

  const load: Channel["load"] = (ref) =>
    Effect.map(read(ref), ({ headers, payload, request, spans, url }) => {
      if (url === null || headers === null) return refuse("the destination was removed")
      const place = payloadPlace(ref.org_id, ref.event_id)
      const opened =
        request !== undefined
          ? Effect.succeed(request)
          : payload === null
            ? undefined
            : box.unsealBytes(place, payload)
      if (spans === null || opened === undefined) return refuse("the spans are not kept any more")
      return Effect.gen(function* () {
        const to = yield* unsealAddress(box, ref.org_id, ref.destination_id, { url, headers })
        return { to, body: yield* opened }
      }).pipe(
        Effect.matchEffect({
          onSuccess: ({ body, to }) => sendSpans(egress, ref.destination_id, to, body, spans),
          onFailure: (error) =>
            Effect.as(
              Effect.logError("A batch of spans or its destination cannot be opened", error),
              unsealFailed
            )
        })
      )
    })

  /** Counts follow the log; a payload stays while its batch can be replayed. */
  const settle = (list: ReadonlyArray<CompletedDelivery>) =>
    Effect.asVoid(sql`
      WITH ended AS (
        SELECT *
        FROM unnest(
          ${textArray(list.map(({ delivery }) => delivery.org_id))}::text[],
          ${textArray(list.map(({ delivery }) => delivery.destination_id))}::text[],
          ${textArray(list.map(({ delivery }) => delivery.event_id))}::text[],
          ${textArray(list.map(({ status }) => status))}::text[],
          ${int4Array(list.map(({ outcome }) => (outcome._tag === "Partial" ? outcome.rejected : 0)))}::int[]
        ) AS e (org_id, destination_id, batch_id, status, rejected)
      ), spans AS (
        SELECT e.*, b.spans
        FROM ended e
        JOIN telemetry_batches b ON b.org_id = e.org_id AND b.batch_id = e.batch_id
      ), unneeded AS (
        DELETE FROM telemetry_batches b
        USING ended e
        WHERE e.status <> 'failed'
          AND b.org_id = e.org_id
          AND b.batch_id = e.batch_id
      ), sums AS (
        SELECT
          org_id, destination_id, sum(spans) AS spans, sum(rejected) AS rejected,
          bool_or(status = 'delivered') AS delivered
        FROM spans
        GROUP BY org_id, destination_id
      ), held AS MATERIALIZED (
        -- In one order everywhere, or two transactions could wait for each other.
        SELECT d.org_id
        FROM telemetry_destinations d
        JOIN sums s USING (org_id, destination_id)
        ORDER BY d.org_id
        FOR NO KEY UPDATE OF d
      )
      UPDATE telemetry_destinations d
      SET
        waiting_spans = d.waiting_spans - s.spans,
        dropped_spans = d.dropped_spans + s.rejected,
        last_delivered_at = CASE WHEN s.delivered THEN now() ELSE d.last_delivered_at END
      FROM sums s
      JOIN held USING (org_id)
      WHERE d.org_id = s.org_id
        AND d.destination_id = s.destination_id
    `)

  return {
    name: OTLP,
    ids: TelemetryDeliveryId,
    policy,
    load,
    onCompleted: settle,
    // Payloads are removed long before the log rows, with a count of what is lost: by the room's own retention.
    expire: () => Effect.succeed(0)
  } satisfies Channel
})

/** Worth another attempt: an operator may give back the key that is missing. */
const unsealFailed = {
  _tag: "Retry" as const,
  error: "the stored spans or the stored address cannot be opened",
  status: null,
  retryAfter: null
}
