import { DateTime, Duration, Effect, type Layer } from "effect"
import { SqlClient } from "effect/sql"
import { type OrgId, uuidTimePrefix } from "../../../domain/Ids.ts"
import { transaction } from "../../store/transaction.ts"
import { toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import { deleteOfOrganizations } from "../../store/deleteOfOrganizations.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { layerDueWorker } from "../../store/layerDueWorker.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** Interval between runs. */
const EVERY = Duration.minutes(1)

/** Batches per statement. */
const STEP_ROWS = 500

/** Statements per run; the next run continues. */
const STEPS = 200

/** How long a failed batch can be replayed. */
export interface RetentionOptions {
  /** Default 72 hours. */
  readonly keep?: Duration.Duration
}

/**
 * Deletes the payloads of failed batches that can no longer be replayed, and counts their spans as dropped. Returns the
 * number of batches. Replicas may run it concurrently.
 */
export const runOnce = Effect.fn("Telemetry.Retention.runOnce")(function* (options: RetentionOptions = {}) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* (yield* StoreClock).now
  const cutoff = DateTime.subtractDuration(now, options.keep ?? Duration.hours(72))
  return yield* deleteOfOrganizations(sql, (org_id) => removeOld(sql, cutoff, org_id), {
    rows: STEP_ROWS,
    steps: STEPS
  })
})

/** Runs immediately and then every minute; a run that left batches is followed by the next after a second. */
export const layer = (
  options: RetentionOptions = {}
): Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> =>
  layerDueWorker({
    name: "telemetry_retention",
    runOnce: Effect.map(runOnce(options), toWorkerRun),
    every: EVERY,
    retryAfter: EVERY
  })

/**
 * Works organization by organization, by ids, which start with their creation time. Locks the log row first, as a
 * replay does: a batch that is queued again keeps its payload. If the log is retained for less time than payloads, the
 * log row may be gone; such a batch cannot be replayed and is deleted too. Destinations are locked in the same order
 * everywhere, or two transactions could deadlock. It runs in a transaction, since a transaction that stores spans may
 * hold the lock of a destination.
 */
const removeOld = (sql: SqlClient.SqlClient, cutoff: DateTime.Utc, org_id: OrgId | undefined) => {
  const ofOrganization = (column: string) => onlyOrganization(sql, column, org_id)
  return Effect.map(
    transaction(
      sql<{ readonly removed: number }>`
        WITH RECURSIVE organizations_with AS (
          (SELECT org_id FROM telemetry_batches WHERE true ${ofOrganization("org_id")} ORDER BY org_id LIMIT 1)
          UNION ALL
          SELECT n.org_id
          FROM organizations_with o
          CROSS JOIN LATERAL (
            SELECT org_id
            FROM telemetry_batches
            WHERE org_id > o.org_id
              ${ofOrganization("org_id")}
            ORDER BY org_id
            LIMIT 1
          ) n
        ), old AS (
          SELECT o.org_id, b.batch_id, b.destination_id, b.delivery_id
          FROM organizations_with o
          CROSS JOIN LATERAL (
            SELECT batch_id, destination_id, delivery_id
            FROM telemetry_batches b
            WHERE b.org_id = o.org_id
              AND b.batch_id < ${`evt_${uuidTimePrefix(cutoff)}`}
              ${ofOrganization("b.org_id")}
            ORDER BY batch_id
            LIMIT ${STEP_ROWS}::int
          ) b
          LIMIT ${STEP_ROWS}::int
        ), held AS MATERIALIZED (
          SELECT old.org_id, old.batch_id
          FROM old
          JOIN deliveries l USING (org_id, destination_id, delivery_id)
          WHERE l.status = 'failed'
            ${ofOrganization("l.org_id")}
          FOR UPDATE OF l SKIP LOCKED
        ), unlogged AS (
          SELECT old.org_id, old.batch_id
          FROM old
          WHERE NOT EXISTS (
            SELECT 1
            FROM deliveries l
            WHERE l.org_id = old.org_id
              AND l.destination_id = old.destination_id
              AND l.delivery_id = old.delivery_id
              ${ofOrganization("l.org_id")}
          )
        ), removed AS (
          DELETE FROM telemetry_batches b
          USING (SELECT * FROM held UNION ALL SELECT * FROM unlogged) r
          WHERE b.org_id = r.org_id
            AND b.batch_id = r.batch_id
            ${ofOrganization("b.org_id")}
          RETURNING b.org_id, b.destination_id, b.spans
        ), sums AS (
          SELECT org_id, destination_id, sum(spans) AS spans
          FROM removed
          GROUP BY org_id, destination_id
        ), destinations AS MATERIALIZED (
          SELECT d.org_id
          FROM telemetry_destinations d
          JOIN sums s USING (org_id, destination_id)
          WHERE true ${ofOrganization("d.org_id")}
          ORDER BY d.org_id
          FOR NO KEY UPDATE OF d
        ), counted AS (
          UPDATE telemetry_destinations d
          SET dropped_spans = d.dropped_spans + s.spans
          FROM sums s
          JOIN destinations USING (org_id)
          WHERE d.org_id = s.org_id
            AND d.destination_id = s.destination_id
            ${ofOrganization("d.org_id")}
        )
        SELECT count(*)::int AS removed
        FROM removed
      `.unprepared
    ),
    ([row]) => row?.removed ?? 0
  ).pipe(Effect.provideService(SqlClient.SqlClient, sql))
}
