import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Conclusion } from "../../../domain/delivery/DeliveryState.ts"
import type { AttemptResult } from "./Attempt.ts"
import { currentTime } from "../../store/currentTime.ts"
import { boolArray, float8Array, int4Array, int8Array, textArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { countedDeliveryColumns, deliveryCounts } from "./deliveryCounts.ts"

/** A result and the verdict on its delivery. */
export interface ConcludedAttempt {
  readonly result: AttemptResult
  readonly verdict: Conclusion
}

/** The status of a delivery after its attempt. A pending delivery stays in the queue. */
export const statusAfter: Readonly<
  Record<Conclusion["_tag"], "pending" | "delivered" | "partial" | "failed">
> = {
  RetryLater: "pending",
  Delivered: "delivered",
  Partial: "partial",
  Failed: "failed"
}

/** SQL of what an attempt `h` changes in its delivery `d`. */
export const ATTEMPTED = `
  status = h.status_after,
  attempts = d.attempts + h.sent::int,
  rejected = h.rejected,
  status_code = CASE WHEN h.sent THEN h.status ELSE d.status_code END,
  last_error = h.error,
  finished_at = CASE WHEN h.status_after <> 'pending' THEN to_timestamp(h.started + h.duration / 1000.0) END
`

/** How a batch of results was recorded, by the numbers of their rows. A row in neither set has another attempt or owner, or is gone. */
export interface RecordedResults {
  /** Rows whose result is recorded. */
  readonly written: ReadonlySet<number>
  /** Rows that another transaction has locked: nothing is recorded yet. */
  readonly locked: ReadonlySet<number>
}

/**
 * Records the results of attempts in one statement: the queue, the log and the attempts. Fenced twice, by the row's
 * attempt and by the epoch of its shard. Never waits for the lock of a queued row (SKIP LOCKED): a transaction that removes
 * one destination would otherwise hold back the results of all others.
 */
export const writeResults = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  batch: ReadonlyArray<ConcludedAttempt>
): Effect.Effect<RecordedResults, SqlError.SqlError> => {
  const column = <A>(of: (attempt: ConcludedAttempt) => A): Array<A> => batch.map(of)
  return Effect.map(
    sql<{ readonly seq: number; readonly is_locked: boolean }>`
      WITH given AS MATERIALIZED (
        SELECT e.*, ${currentTime(sql, clock)} + e.delay * interval '1 millisecond' AS due_at
        FROM unnest(
          ${int4Array(column(({ result }) => result.delivery.shard))}::smallint[],
          ${int8Array(column(({ result }) => result.delivery.seq))}::bigint[],
          ${int8Array(column(({ result }) => result.lane.owned.epoch))}::bigint[],
          ${int4Array(column(({ result }) => result.delivery.attempt))}::int[],
          ${boolArray(column(({ result }) => result.outcome._tag !== "Refused"))}::boolean[],
          ${textArray(column(({ verdict }) => statusAfter[verdict._tag]))}::text[],
          ${float8Array(column(({ verdict }) => (verdict._tag === "RetryLater" ? verdict.delay : 0)))}::float8[],
          ${textArray(column(({ verdict }) => (verdict._tag === "Delivered" ? null : verdict.error)))}::text[],
          ${int4Array(column(({ verdict }) => (verdict._tag === "Partial" ? verdict.rejected : 0)))}::int[],
          ${int4Array(column(({ result }) => (result.outcome._tag === "Refused" ? null : result.outcome.status)))}::int[],
          ${float8Array(column(({ result }) => result.startedAt / 1000))}::float8[],
          ${int4Array(column(({ result }) => result.durationMillis))}::int[]
        ) AS e (shard, seq, epoch, attempt, sent, status_after, delay, error, rejected, status, started, duration)
        JOIN delivery_shards s ON s.shard = e.shard AND s.epoch = e.epoch
      ), locked AS MATERIALIZED (
        SELECT e.*, q.org_id, q.destination_id, q.delivery_id
        FROM given e
        JOIN delivery_queue q ON q.shard = e.shard AND q.seq = e.seq AND q.attempt = e.attempt
        FOR UPDATE OF q SKIP LOCKED
      ), noted AS (
        UPDATE deliveries d
        SET ${sql.literal(ATTEMPTED)}
        FROM locked h
        WHERE d.org_id = h.org_id
          AND d.destination_id = h.destination_id
          AND d.delivery_id = h.delivery_id
        RETURNING ${sql.literal(countedDeliveryColumns("d"))}
      ), ${deliveryCounts(sql, "noted", 1)}, done AS (
        DELETE FROM delivery_queue q
        USING locked h
        WHERE q.shard = h.shard
          AND q.seq = h.seq
          AND h.status_after <> 'pending'
      ), retried AS (
        UPDATE delivery_queue q
        SET due_at = h.due_at, attempt = q.attempt + 1
        FROM locked h
        WHERE q.shard = h.shard
          AND q.seq = h.seq
          AND h.status_after = 'pending'
      ), logged AS (
        INSERT INTO delivery_attempts
          (org_id, destination_id, delivery_id, attempt, started_at, duration_ms, status, error)
        SELECT org_id, destination_id, delivery_id, attempt + 1, to_timestamp(started), duration, status, error
        FROM locked
        WHERE sent
      )
      SELECT seq::float8 AS seq, false AS is_locked
      FROM locked
      UNION ALL
      SELECT e.seq::float8, true
      FROM given e
      JOIN delivery_queue q ON q.shard = e.shard AND q.seq = e.seq AND q.attempt = e.attempt
      WHERE (SELECT count(*) FROM locked) < ${batch.length}::int
        AND e.seq NOT IN (SELECT seq FROM locked)
    `,
    (rows) => ({
      written: new Set(rows.flatMap(({ is_locked, seq }) => (is_locked ? [] : [seq]))),
      locked: new Set(rows.flatMap(({ is_locked, seq }) => (is_locked ? [seq] : [])))
    })
  )
}
