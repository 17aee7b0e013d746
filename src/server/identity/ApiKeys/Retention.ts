import { DateTime, Duration, Effect, type Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { mailbox } from "../mailbox.ts"
import { deleteInBatches, toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import { layerDueWorker } from "../../store/layerDueWorker.ts"
import { transaction } from "../../store/transaction.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** Pause between two runs. */
const EVERY = Duration.hours(1)

/** Maximum number of keys that one statement deletes. */
const BATCH_ROWS = 500

/** Maximum number of statements per run; the next run deletes the rest. */
const MAX_BATCHES = 200

export interface KeyRetentionOptions {
  /** How long keys are retained after they were revoked or have expired. */
  readonly keep: Duration.Input
}

/**
 * Deletes keys that can no longer be used, some time after they were revoked or have expired, with their console
 * sessions and with the confirmations of email addresses that no other key has. The audit log and other records keep
 * their ids and names. Two kinds of keys are retained: keys whose created keys still exist, because a key's maker
 * determines which requests it may approve; and keys of the operator, which no other key created.
 */
export const runOnce = Effect.fn("ApiKeys.Retention.runOnce")(function* ({ keep }: KeyRetentionOptions) {
  const sql = yield* SqlClient.SqlClient
  const cutoff = toDate(DateTime.subtractDuration(yield* (yield* StoreClock).now, keep))
  const deleteBatch = Effect.map(
    sql`
      WITH ended AS MATERIALIZED (
        SELECT org_id, key_id, email
        FROM api_keys AS key
        WHERE created_by_id IS NOT NULL
          AND least(revoked_at, expires_at) < ${cutoff}::timestamptz
          AND NOT EXISTS (
            SELECT 1
            FROM api_keys AS made
            WHERE made.org_id = key.org_id
              AND made.created_by_id = key.key_id
          )
        ORDER BY least(revoked_at, expires_at)
        LIMIT ${BATCH_ROWS}
        FOR UPDATE SKIP LOCKED
      ), ended_sessions AS (
        DELETE FROM console_sessions AS session
        USING ended
        WHERE session.org_id = ended.org_id
          AND session.key_id = ended.key_id
      ), ended_uses AS (
        DELETE FROM api_key_uses AS used
        USING ended
        WHERE used.org_id = ended.org_id
          AND used.key_id = ended.key_id
      ), unused_addresses AS (
        DELETE FROM email_addresses AS unused
        USING (
          SELECT org_id, ${mailbox(sql)} AS address
          FROM ended AS api_keys
          WHERE email IS NOT NULL
          EXCEPT
          SELECT org_id, ${mailbox(sql)}
          FROM api_keys
          WHERE email IS NOT NULL
            AND org_id IN (SELECT org_id FROM ended WHERE email IS NOT NULL)
            AND (org_id, key_id) NOT IN (SELECT org_id, key_id FROM ended)
        ) AS address
        WHERE unused.org_id = address.org_id
          AND unused.address = address.address
      )
      DELETE FROM api_keys AS key
      USING ended
      WHERE key.org_id = ended.org_id
        AND key.key_id = ended.key_id
      RETURNING 1 AS removed
    `,
    (rows) => rows.length
  )
  // In a transaction, which is tried again after a deadlock: on a cluster replicas lock the nodes' copies of a table in any order.
  return yield* deleteInBatches(transaction(deleteBatch), { rows: 1, steps: MAX_BATCHES })
})

/** The worker `key_retention`: runs hourly, and after a second if a run left keys past their retention. */
export const layer = (
  options: KeyRetentionOptions
): Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> =>
  layerDueWorker({
    name: "key_retention",
    runOnce: Effect.map(runOnce(options), toWorkerRun),
    every: EVERY,
    retryAfter: EVERY
  })
