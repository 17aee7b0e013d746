import { type DateTime, Duration, Effect, type Layer, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId, type TraceId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { nextTurnOrYield } from "../admission/LoopTurns.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { layerDueWorker } from "../store/layerDueWorker.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { removeErasedSpans } from "./Spans/removeErasedSpans.ts"
import { payloadPlace } from "./Spans/storeBatches.ts"

/** Pause between two looks for erased traces. */
const EVERY = Duration.seconds(5)

/**
 * When the batches are searched a second time: by then, every replica has stored the spans that it had buffered when the
 * trace was erased, unless the database was unavailable for as long.
 */
const SECOND_SEARCH_AFTER = Duration.minutes(5)

/** Batches per read: each may have 1 MiB before compression. */
const READ_BATCHES = 8

/** Rows of erased traces per statement. */
const BATCH_TRACES = 5_000

/**
 * Remembers traces whose spans must not be exported any more, if the organization exports content. Call it in the
 * transaction that deletes the run or session.
 */
export const rememberTraces = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  trace_ids: ReadonlyArray<TraceId>,
  now: Timestamp
) => sql`
  INSERT INTO erased_traces (org_id, trace_id, erased_at, due_at)
  SELECT ${org_id}, trace_id, ${toDate(now)}, ${toDate(now)}
  FROM unnest(${textArray(trace_ids)}::text[]) AS erased (trace_id)
  WHERE EXISTS (
    SELECT 1
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
      AND content
  )
  ON CONFLICT DO NOTHING
`

const dueRows = rowsOf(Schema.Struct({ org_id: OrgId }))

const batchRows = rowsOf(Schema.Struct({ batch_id: Schema.String, payload: Schema.Uint8Array }))

/**
 * Removes the spans of erased traces from the batches of one organization that wait for delivery or can be replayed.
 * Returns the number of organizations with erased traces that were due: one or none. Batches of scores have no content.
 *
 * A batch keeps its number of spans, because the counts of its destination contain it. Batches that are in progress are
 * sent as they are. It is safe to run it on several replicas, and to end it at any time: a due trace stays due until all
 * batches were searched.
 */
export const runOnce = Effect.fn("eraseSpans.runOnce")(function* () {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const startedAt = yield* (yield* StoreClock).now
  const due = yield* dueRows.first(sql`
    SELECT org_id
    FROM erased_traces
    WHERE due_at <= ${toDate(startedAt)}
    ORDER BY due_at
    LIMIT 1
  `)
  if (due === undefined) return 0
  const { org_id } = due
  let isComplete = true
  let after = ""
  for (;;) {
    const batches = yield* batchRows.all(sql`
      SELECT batch_id, payload
      FROM telemetry_batches
      WHERE org_id = ${org_id}
        AND batch_id > ${after}
        AND signal = 'spans'
      ORDER BY batch_id
      LIMIT ${READ_BATCHES}
    `)
    for (const batch of batches) {
      yield* nextTurnOrYield
      if (!(yield* eraseFrom(sql, box, org_id, batch))) isComplete = false
    }
    const last = batches.at(-1)
    if (last === undefined || batches.length < READ_BATCHES) break
    after = last.batch_id
  }
  yield* finishSearch(sql, org_id, startedAt, isComplete)
  return 1
})

/**
 * Removes erased traces from a batch, unless it was sent or changed since it was read: then the second search finds it. Returns false if the
 * batch could not be decrypted.
 */
const eraseFrom = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  { batch_id, payload }: { readonly batch_id: string; readonly payload: Uint8Array }
) {
  const place = payloadPlace(org_id, batch_id)
  const opened = yield* Effect.result(box.unsealBytes(place, payload))
  if (Result.isFailure(opened)) {
    yield* Effect.logError(`Could not decrypt the batch ${batch_id} to erase spans`, opened.failure)
    return false
  }
  const left = yield* removeErasedSpans(sql, org_id, opened.success).pipe(
    // The other batches, also of other organizations, do not wait for it.
    Effect.catchTag("UnreadableRequest", ({ reason }) =>
      Effect.as(
        Effect.logError(`Could not read the batch ${batch_id} to erase spans: it is ${reason}`),
        undefined
      )
    )
  )
  if (left === undefined) return true
  const resealed = yield* box.sealBytes(place, left)
  yield* sql`
    UPDATE telemetry_batches
    SET payload = ${resealed}
    WHERE org_id = ${org_id}
      AND batch_id = ${batch_id}
      AND payload = ${payload}
  `
  return true
})

/**
 * After the first search of a trace, sets when the second is due; after the second, forgets it. If not all batches could be decrypted, the next
 * search takes the place of this one: a batch whose master key is missing can be replayed when the key is there again.
 */
const finishSearch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  startedAt: DateTime.Utc,
  isComplete: boolean
) {
  const seconds = Duration.toSeconds(SECOND_SEARCH_AFTER)
  for (;;) {
    const rows = yield* sql`
      WITH searched AS MATERIALIZED (
        SELECT trace_id, due_at > erased_at AND ${isComplete}::boolean AS is_last
        FROM erased_traces
        WHERE org_id = ${org_id}
          AND due_at <= ${toDate(startedAt)}
        ORDER BY trace_id
        LIMIT ${BATCH_TRACES}
        FOR UPDATE
      ), forgotten AS (
        DELETE FROM erased_traces AS trace
        USING searched
        WHERE trace.org_id = ${org_id}
          AND trace.trace_id = searched.trace_id
          AND is_last
      ), deferred AS (
        UPDATE erased_traces AS trace
        SET due_at = ${toDate(startedAt)}::timestamptz + make_interval(secs => ${seconds})
        FROM searched
        WHERE trace.org_id = ${org_id}
          AND trace.trace_id = searched.trace_id
          AND NOT is_last
      )
      SELECT 1 AS searched
      FROM searched
    `
    if (rows.length < BATCH_TRACES) return
  }
})

/** The worker `span_erasure`: looks for erased traces every five seconds, and continues at once while there are some. */
export const layer: Layer.Layer<never, never, SqlClient.SqlClient | SecretBox | StoreClock> = layerDueWorker({
  name: "span_erasure",
  runOnce: Effect.map(runOnce(), (organizations) => ({
    counts: { organizations },
    next: organizations === 0 ? undefined : "100 millis"
  })),
  every: EVERY,
  retryAfter: EVERY
})
