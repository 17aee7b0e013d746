import { DateTime, Duration, Effect, type Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { atomic } from "../../store/transaction.ts"
import { toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import { deleteOfOrganizations } from "../../store/deleteOfOrganizations.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { layerDueWorker } from "../../store/layerDueWorker.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** Pause between two runs. */
const EVERY = Duration.hours(1)

/** Entries that one statement deletes. */
const BATCH_ROWS = 1_000

/** Organizations that one statement deletes from. */
const MAX_ORGANIZATIONS = 100

/** The key of the advisory lock of retention: "csau" in ASCII. No other lock of the database has it. */
const RETENTION_LOCK = 0x63736175

/** Statements of one run; the next run deletes the rest. */
const MAX_BATCHES = 200

export interface RetentionOptions {
  /** How long entries are retained. */
  readonly keep: Duration.Input
}

/**
 * Deletes audit entries past their retention, from the beginning of each organization's hash chain, so that what
 * remains can be verified: an expired entry behind one that is not expired waits for it. If another replica is
 * deleting, this run ends.
 */
export const runOnce = Effect.fn("Audit.Retention.runOnce")(function* ({ keep }: RetentionOptions) {
  const sql = yield* SqlClient.SqlClient
  const cutoff = toDate(DateTime.subtractDuration(yield* (yield* StoreClock).now, keep))
  const deleteBatch = (org_id: OrgId | undefined) =>
    atomic(sql)(
      Effect.gen(function* () {
        // One replica at a time: the next batch must find the beginning of the chains as this one leaves it.
        const [lock] = yield* sql<{ readonly acquired: boolean }>`
        SELECT pg_try_advisory_xact_lock(${RETENTION_LOCK}::bigint) AS acquired
      `
        if (lock?.acquired !== true) return 0
        const ofOrganization = (column: string) => onlyOrganization(sql, column, org_id)
        const rows = yield* sql`
        WITH due AS (
          SELECT heads.org_id
          FROM audit_heads AS heads
            CROSS JOIN LATERAL (
              SELECT log.occurred_at
              FROM audit_chain AS chain
                JOIN audit_log AS log ON log.org_id = chain.org_id AND log.entry_id = chain.entry_id
              WHERE chain.org_id = heads.org_id
                ${ofOrganization("chain.org_id")}
              ORDER BY chain.position
              LIMIT 1
            ) AS oldest
          WHERE oldest.occurred_at < ${cutoff}
            AND EXISTS (SELECT 1 FROM audit_log WHERE occurred_at < ${cutoff} ${ofOrganization("org_id")})
            ${ofOrganization("heads.org_id")}
          LIMIT ${MAX_ORGANIZATIONS}
        ), beginning AS (
          SELECT
            due.org_id, oldest.position, oldest.entry_id,
            bool_and(oldest.occurred_at < ${cutoff}) OVER (PARTITION BY due.org_id ORDER BY oldest.position) AS ends
          FROM due
            CROSS JOIN LATERAL (
              SELECT chain.position, chain.entry_id, log.occurred_at
              FROM audit_chain AS chain
                JOIN audit_log AS log ON log.org_id = chain.org_id AND log.entry_id = chain.entry_id
              WHERE chain.org_id = due.org_id
                ${ofOrganization("chain.org_id")}
              ORDER BY chain.position
              LIMIT ${BATCH_ROWS}
            ) AS oldest
        ), ended AS MATERIALIZED (
          SELECT org_id, position, entry_id
          FROM beginning
          WHERE ends
          ORDER BY org_id, position
          LIMIT ${BATCH_ROWS}
        ), unchained AS (
          DELETE FROM audit_chain AS chain
          USING ended
          WHERE chain.org_id = ended.org_id
            AND chain.position = ended.position
            ${ofOrganization("chain.org_id")}
        )
        DELETE FROM audit_log AS log
        USING ended
        WHERE log.org_id = ended.org_id
          AND log.entry_id = ended.entry_id
          ${ofOrganization("log.org_id")}
        RETURNING 1 AS removed
      `
        return rows.length
      })
    )
  return yield* deleteOfOrganizations(sql, deleteBatch, { rows: 1, steps: MAX_BATCHES })
})

/** The worker `audit_retention`: runs hourly, and after a second if a run left entries past their retention. */
export const layer = (
  options: RetentionOptions
): Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> =>
  layerDueWorker({
    name: "audit_retention",
    runOnce: Effect.map(runOnce(options), toWorkerRun),
    every: EVERY,
    retryAfter: EVERY
  })
