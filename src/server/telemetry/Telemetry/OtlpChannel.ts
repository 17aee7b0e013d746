import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { CooldownPolicy } from "../../../domain/delivery/Cooldown.ts"
import { TelemetryDeliveryId } from "../../../domain/Ids.ts"
import { exponentialRetryPolicy } from "../../../domain/delivery/RetryPolicy.ts"
import { hasSeparateScores } from "../../../domain/telemetry/FeedbackConventions.ts"
import type {
  Compression,
  ScoreFormat,
  TelemetrySignal
} from "../../../domain/telemetry/TelemetryDestination.ts"
import { type Channel, type ChannelPolicy, type CompletedDelivery } from "../../delivery/Delivery.ts"
import { type DeliveryRef, refuse, type SendAttempt } from "../../delivery/Channel.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import { deliveryRefRows } from "../../delivery/deliveryRefRows.ts"
import { Egress } from "../../egress/Egress.ts"
import { SecretBox, type SecretUnreadable } from "../../secrets/SecretBox.ts"
import { OTLP, payloadPlace } from "../Spans/storeBatches.ts"
import { RecentPayloads } from "../Spans/RecentPayloads.ts"
import { removeErasedSpans } from "../Spans/removeErasedSpans.ts"
import { currentTime } from "../../store/currentTime.ts"
import { isCluster } from "../../store/Cluster.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { makeStatementBatcher } from "../../store/makeStatementBatcher.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import { sendProtobufSpans } from "./sendProtobufSpans.ts"
import { rememberRefusedGzip } from "./rows.ts"
import { acceptsGzip, sendScores } from "./sendScores.ts"
import { EXPORT_MILLIS, sendCompressed, sendSpans, unsealAddress } from "./sendSpans.ts"

/** Retries as OTLP/HTTP specifies them, with the contract's numbers: 1 s × 1.5 up to 30 s, ±50 %, 5 minutes in all. */
export const exportRetries = exponentialRetryPolicy({
  firstMillis: 1_000,
  factor: 1.5,
  longestMillis: 30_000,
  maxElapsedMillis: 300_000,
  jitter: 0.5
})

/** Batches loaded by one statement; each may have a few hundred kilobytes. */
const LOAD_BATCH = 8

/**
 * Concurrent requests to one collector, and to all collectors from one replica. A hanging collector occupies eight
 * slots for ten seconds and then one, so a hundred hanging collectors leave slots for the others. Each request
 * holds its batch in memory: 1 MiB before compression and usually at most a quarter of that after, so 32 MiB if all
 * slots are taken.
 */
const CONCURRENCY = 8
const SLOTS = 128

/**
 * After this many failures in a row a collector is sent one request at a time until it accepts one. There is no
 * cooldown.
 */
const cooldown: CooldownPolicy = { failureThreshold: 5, firstMillis: 0, longestMillis: 0 }

interface LoadedBatch {
  /** Null if the request is in memory as it is stored, or if the batch has expired. */
  readonly payload: Uint8Array | null
  /** Whether the organization deleted runs or sessions whose spans may still be in the batch. */
  readonly has_erased: boolean
  readonly spans: number | null
  readonly signal: TelemetrySignal | null
  /** How the destination gets scores. */
  readonly scores: ScoreFormat | null
  readonly compression: Compression | null
  readonly gzip_refused: boolean | null
  readonly url: Uint8Array | null
  readonly headers: Uint8Array | null
}

/**
 * The telemetry channel: delivers batches of spans and scores to collectors. It has no cooldown, because each batch expires after
 * five minutes, and spans are dropped while the queue is full.
 */
export const make = Effect.fnUntraced(function* (options: { readonly queueLimit?: number } = {}) {
  const sql = yield* SqlClient.SqlClient
  const egress = yield* Egress
  const box = yield* SecretBox
  const recentPayloads = yield* RecentPayloads
  const storeClock = yield* StoreClock
  const clustered = yield* isCluster(sql)
  const policy: ChannelPolicy = {
    retry: exportRetries,
    cooldown,
    // The queue limit counts spans, and each batch has at least one.
    queueLimit: options.queueLimit ?? 10_000,
    concurrency: CONCURRENCY,
    slots: SLOTS,
    deadlineMillis: EXPORT_MILLIS
  }

  const read = yield* makeStatementBatcher({
    sql,
    maxBatch: LOAD_BATCH,
    organizationOf: ({ org_id }: DeliveryRef) => org_id,
    run: (refs, org_id) => {
      const recent = refs.map(({ event_id }) => recentPayloads.take(event_id))
      const versions = recent.map((payload) => payload?.version ?? null)
      return Effect.map(
        sql<LoadedBatch>`
          SELECT
            b.spans, b.signal, d.scores, d.compression, d.gzip_refused, d.url, d.headers,
            CASE WHEN b.xmin::text = (${textArray(versions)}::text[])[i.number::int] THEN NULL ELSE b.payload END AS payload,
            EXISTS (
              SELECT 1
              FROM erased_traces
              WHERE erased_traces.org_id = i.org_id
                ${onlyOrganization(sql, "erased_traces.org_id", org_id)}
            ) AS has_erased
          FROM ${deliveryRefRows(sql, refs)}
          LEFT JOIN telemetry_destinations d ON d.org_id = i.org_id AND d.destination_id = i.destination_id
            ${onlyOrganization(sql, "d.org_id", org_id)}
          LEFT JOIN telemetry_batches b ON b.org_id = i.org_id AND b.batch_id = i.event_id
            ${onlyOrganization(sql, "b.org_id", org_id)}
          ORDER BY i.number
        `,
        (rows) => rows.map((row, index) => ({ ...row, request: recent[index]?.request }))
      )
    }
  })

  const load: Channel["load"] = (ref) =>
    Effect.flatMap(read(ref), ({ has_erased, payload, request, signal, spans, ...destination }) => {
      const { compression, gzip_refused, headers, scores, url } = destination
      if (
        url === null ||
        headers === null ||
        scores === null ||
        compression === null ||
        gzip_refused === null
      ) {
        return Effect.succeed(refuse("the destination was removed"))
      }
      // The row's payload is null if the request in memory is the same.
      const unsealed =
        payload !== null
          ? box.unsealBytes(payloadPlace(ref.org_id, ref.event_id), payload)
          : request === undefined
            ? undefined
            : Effect.succeed(request)
      if (spans === null || signal === null || unsealed === undefined) {
        return Effect.succeed(refuse("the spans have expired"))
      }
      // A batch of scores exists only for a destination that gets them apart from spans.
      const format = signal === "scores" && hasSeparateScores(scores) ? scores : null
      const sendTraces = scores === "phoenix" ? sendProtobufSpans : sendSpans
      const sending =
        (bodyEffect: Effect.Effect<Uint8Array, SecretUnreadable>): SendAttempt =>
        (began) =>
          Effect.matchEffect(
            Effect.gen(function* () {
              const to = yield* unsealAddress(box, ref.org_id, ref.destination_id, { url, headers })
              return { to, body: yield* bodyEffect }
            }),
            {
              onSuccess: ({ body, to }) =>
                sendCompressed(
                  // A tool for scores that takes no compressed requests is not asked to.
                  {
                    compression: format === null || acceptsGzip(format) ? compression : "none",
                    gzip_refused
                  },
                  (isGzipped) => {
                    const batch = { payload: body, spans, isGzipped, began }
                    return format === null
                      ? sendTraces(egress, ref, to, batch)
                      : sendScores(egress, ref, to, format, batch)
                  },
                  rememberRefusedGzip(sql, ref.org_id, ref.destination_id)
                ),
              onFailure: (error) =>
                Effect.as(
                  Effect.logError("Could not decrypt a batch of spans or its destination", error),
                  unsealFailed
                )
            }
          )
      return has_erased && signal === "spans"
        ? Effect.map(withoutErasedSpans(ref, unsealed), (body) =>
            body === undefined ? refuse("the stored spans could not be read") : sending(body)
          )
        : Effect.succeed(sending(unsealed))
    })

  /**
   * Removes the spans of runs and sessions that were deleted since the batch was filled: the worker that erases them from
   * batches may not have found this one yet. Returns undefined if the batch cannot be read: then nothing is sent.
   */
  const withoutErasedSpans = Effect.fnUntraced(function* (
    { event_id, org_id }: DeliveryRef,
    unsealed: Effect.Effect<Uint8Array, SecretUnreadable>
  ) {
    const opened = yield* Effect.result(unsealed)
    if (Result.isFailure(opened)) return unsealed
    return yield* removeErasedSpans(sql, org_id, opened.success).pipe(
      Effect.map((left): typeof unsealed => Effect.succeed(left ?? opened.success)),
      Effect.catchTag("UnreadableRequest", ({ reason }) =>
        Effect.as(
          Effect.logError(`Could not read the batch ${event_id} to send it: it is ${reason}`),
          undefined
        )
      )
    )
  })

  /** Updates the counts to match the log; deletes payloads, except of failed batches, which can be replayed. */
  const updateCounts = (list: ReadonlyArray<CompletedDelivery>) => {
    // The results of a cluster are written organization by organization.
    const ofOrganization = (table: string) =>
      onlyOrganization(sql, `${table}.org_id`, clustered ? list[0]?.delivery.org_id : undefined)
    return Effect.asVoid(sql`
      WITH completed AS (
        SELECT *, ${currentTime(sql, storeClock)} AS at
        FROM unnest(
          ${textArray(list.map(({ delivery }) => delivery.org_id))}::text[],
          ${textArray(list.map(({ delivery }) => delivery.destination_id))}::text[],
          ${textArray(list.map(({ delivery }) => delivery.event_id))}::text[],
          ${textArray(list.map(({ status }) => status))}::text[],
          ${int4Array(list.map(({ outcome }) => (outcome._tag === "Partial" ? outcome.rejected : 0)))}::int[]
        ) AS e (org_id, destination_id, batch_id, status, rejected)
      ), spans AS (
        SELECT e.*, b.spans
        FROM completed e
        JOIN telemetry_batches b ON b.org_id = e.org_id AND b.batch_id = e.batch_id ${ofOrganization("b")}
      ), unneeded AS (
        DELETE FROM telemetry_batches b
        USING completed e
        WHERE e.status <> 'failed'
          AND b.org_id = e.org_id
          AND b.batch_id = e.batch_id
          ${ofOrganization("b")}
      ), sums AS (
        SELECT
          org_id, destination_id, sum(spans) AS spans, sum(rejected) AS rejected,
          max(at) FILTER (WHERE status = 'delivered') AS delivered_at
        FROM spans
        GROUP BY org_id, destination_id
      ), locked AS MATERIALIZED (
        -- All transactions lock destinations in the same order, or two of them could deadlock.
        SELECT d.org_id
        FROM telemetry_destinations d
        JOIN sums s USING (org_id, destination_id)
        WHERE true ${ofOrganization("d")}
        ORDER BY d.org_id
        FOR NO KEY UPDATE OF d
      )
      UPDATE telemetry_destinations d
      SET
        waiting_spans = d.waiting_spans - s.spans,
        dropped_spans = d.dropped_spans + s.rejected,
        last_delivered_at = coalesce(s.delivered_at, d.last_delivered_at)
      FROM sums s
      JOIN locked USING (org_id)
      WHERE d.org_id = s.org_id
        AND d.destination_id = s.destination_id
        ${ofOrganization("d")}
    `)
  }

  return {
    name: OTLP,
    ids: TelemetryDeliveryId,
    policy,
    load,
    onCompleted: updateCounts,
    // Telemetry's own retention deletes payloads long before their log rows and counts the lost spans.
    expire: () => Effect.succeed(0)
  } satisfies Channel
})

/** Worth a retry: an operator may restore the missing master key. */
const unsealFailed = {
  _tag: "Retry" as const,
  error: "the stored spans or collector address could not be decrypted",
  status: null,
  retryAfter: null
}
