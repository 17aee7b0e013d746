/**
 * Retention of rows that are deleted some time after their end, table by table. Periods that organizations set themselves are in
 * `DataRetention`.
 */
import { DateTime, type Duration, Effect, Layer, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { KeyId, OrgId, uuidTimePrefix } from "../../domain/Ids.ts"
import { INVITATION_RETENTION } from "../../domain/identity/Invitation.ts"
import { toDate } from "../../domain/Time.ts"
import { deleteInBatches, toWorkerRun } from "../concurrency/deleteInBatches.ts"
import { mailbox } from "../identity/mailbox.ts"
import { deleteOfOrganizations } from "../store/deleteOfOrganizations.ts"
import { RETENTION_MILLIS } from "../store/idempotencyKeys.ts"
import { layerDueWorker } from "../store/layerDueWorker.ts"
import { onlyOrganization } from "../store/onlyOrganization.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { transaction } from "../store/transaction.ts"

/** Statements of one run; the next run deletes the rest. */
const MAX_BATCHES = 200

/** The rows of one statement: at most `rows`, which ended before `cutoff`. */
interface Batch {
  readonly sql: SqlClient.SqlClient
  readonly cutoff: DateTime.Utc
  readonly rows: number
  /** The condition that a column is the organization of the statement; empty if the statement is about all of them. */
  readonly ofOrganization: (column: string) => ReturnType<typeof onlyOrganization>
}

/** Rows that end, and how they are deleted. */
interface Expiry {
  /** Pause between two runs. A run that leaves rows is followed by the next after a second. */
  readonly every: Duration.Input
  /** Rows that one statement deletes. */
  readonly rows: number
  /** Whether each organization has statements of its own on a cluster. */
  readonly isByOrganization?: true
  readonly deleteBatch: (batch: Batch) => Effect.Effect<number, SqlError.SqlError, SqlClient.SqlClient>
}

const countRows = <E, R>(deleted: Effect.Effect<ReadonlyArray<unknown>, E, R>) =>
  Effect.map(deleted, (rows) => rows.length)

const keyRows = rowsOf(Schema.Struct({ org_id: OrgId, key_id: KeyId }))

/** The key of the advisory lock of the audit log's retention: "csau" in ASCII. No other lock of the database has it. */
const AUDIT_LOCK = 0x63736175

/** Organizations whose audit entries one statement deletes. */
const MAX_AUDITED_ORGANIZATIONS = 100

const expiries = {
  idempotency_retention: {
    every: "10 minutes",
    rows: 1_000,
    deleteBatch: ({ cutoff, rows, sql }) =>
      countRows(sql`
        WITH expired AS MATERIALIZED (
          SELECT org_id, operation, key
          FROM idempotency_keys
          WHERE created_at < ${toDate(cutoff)}
          ORDER BY created_at
          LIMIT ${rows}
        )
        DELETE FROM idempotency_keys AS used
        USING expired
        WHERE used.org_id = expired.org_id
          AND used.operation = expired.operation
          AND used.key = expired.key
          -- A request may have taken the key over meanwhile.
          AND used.created_at < ${toDate(cutoff)}
        RETURNING 1 AS removed
      `)
  },
  /** Counters of budgets that count no step any more. A step that is counted meanwhile has raised `expires_at`. */
  budget_counter_retention: {
    every: "10 minutes",
    rows: 1_000,
    isByOrganization: true,
    deleteBatch: ({ cutoff, ofOrganization, rows, sql }) =>
      countRows(sql`
        WITH expired AS MATERIALIZED (
          SELECT org_id, counter
          FROM budget_counters
          WHERE expires_at < ${toDate(cutoff)}::timestamptz
            ${ofOrganization("org_id")}
          ORDER BY expires_at
          LIMIT ${rows}
          FOR UPDATE SKIP LOCKED
        )
        DELETE FROM budget_counters AS used
        USING expired
        WHERE used.org_id = expired.org_id
          AND used.counter = expired.counter
          ${ofOrganization("used.org_id")}
        RETURNING 1 AS removed
      `)
  },
  /** Uses of feedback tokens that have expired: their expiry alone refuses them. */
  feedback_token_retention: {
    every: "10 minutes",
    rows: 1_000,
    deleteBatch: ({ cutoff, rows, sql }) =>
      countRows(sql`
        WITH expired AS MATERIALIZED (
          SELECT org_id, token_id
          FROM feedback_token_uses
          WHERE expires_at < ${toDate(cutoff)}::timestamptz
          ORDER BY expires_at
          LIMIT ${rows}
        )
        DELETE FROM feedback_token_uses AS used
        USING expired
        WHERE used.org_id = expired.org_id
          AND used.token_id = expired.token_id
        RETURNING 1 AS removed
      `)
  },
  /** Ended invitations, which have names and addresses, with their links. Without an index: the table has those of some weeks only. */
  invitation_retention: {
    every: "1 hour",
    rows: 1_000,
    isByOrganization: true,
    deleteBatch: ({ cutoff, ofOrganization, rows, sql }) =>
      countRows(sql`
        WITH ended AS MATERIALIZED (
          SELECT org_id, invitation_id
          FROM invitations
          WHERE least(accepted_at, revoked_at, expires_at) < ${toDate(cutoff)}::timestamptz
            ${ofOrganization("org_id")}
          LIMIT ${rows}
          FOR UPDATE SKIP LOCKED
        )
        DELETE FROM invitations AS invited
        USING ended
        WHERE invited.org_id = ended.org_id
          AND invited.invitation_id = ended.invitation_id
          ${ofOrganization("invited.org_id")}
        RETURNING 1 AS removed
      `)
  },
  /**
   * Keys that can no longer be used, with their console sessions and with the confirmations of email addresses that no
   * other key has. The audit log and other records keep their ids and names. Two kinds of keys are retained: keys whose
   * created keys still exist, because a key's maker determines which requests it may approve; and keys of the operator,
   * which no other key created. On a cluster, each node deletes the rows of its own copy, so they are chosen before, by one node. In a
   * transaction, which is tried again after a deadlock: replicas lock the copies in any order.
   */
  key_retention: {
    every: "1 hour",
    rows: 500,
    deleteBatch: Effect.fnUntraced(function* ({ cutoff, rows, sql }) {
      const isEnded = sql`
        created_by_id IS NOT NULL
        AND least(revoked_at, expires_at) < ${toDate(cutoff)}::timestamptz
        AND NOT EXISTS (
          SELECT 1
          FROM api_keys AS made
          WHERE made.org_id = key.org_id
            AND made.created_by_id = key.key_id
        )
      `
      const chosen = yield* keyRows.all(sql`
        SELECT org_id, key_id
        FROM api_keys AS key
        WHERE ${isEnded}
        ORDER BY least(revoked_at, expires_at)
        LIMIT ${rows}
      `)
      if (chosen.length === 0) return 0
      return yield* transaction(
        countRows(sql`
        WITH ended AS MATERIALIZED (
          SELECT key.org_id, key.key_id, key.email
          FROM unnest(
            ${textArray(chosen.map(({ org_id }) => org_id))}::text[],
            ${textArray(chosen.map(({ key_id }) => key_id))}::text[]
          ) AS chosen (org_id, key_id)
            JOIN api_keys AS key USING (org_id, key_id)
          WHERE ${isEnded}
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
      `)
      )
    })
  },
  /**
   * Audit entries from the beginning of each organization's hash chain, so that what remains can be verified: an expired
   * entry behind one that is not expired waits for it. If another replica is deleting, the run ends.
   */
  audit_retention: {
    every: "1 hour",
    rows: 1_000,
    isByOrganization: true,
    deleteBatch: ({ cutoff, ofOrganization, rows, sql }) =>
      transaction(
        Effect.gen(function* () {
          // One replica at a time: the next batch must find the beginning of the chains as this one leaves it.
          const [lock] = yield* sql<{ readonly acquired: boolean }>`
            SELECT pg_try_advisory_xact_lock(${AUDIT_LOCK}::bigint) AS acquired
          `
          if (lock?.acquired !== true) return 0
          return yield* countRows(sql`
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
              WHERE oldest.occurred_at < ${toDate(cutoff)}
                AND EXISTS (SELECT 1 FROM audit_log WHERE occurred_at < ${toDate(cutoff)} ${ofOrganization("org_id")})
                ${ofOrganization("heads.org_id")}
              LIMIT ${MAX_AUDITED_ORGANIZATIONS}
            ), beginning AS (
              SELECT
                due.org_id, oldest.position, oldest.entry_id,
                bool_and(oldest.occurred_at < ${toDate(cutoff)}) OVER (PARTITION BY due.org_id ORDER BY oldest.position) AS ends
              FROM due
                CROSS JOIN LATERAL (
                  SELECT chain.position, chain.entry_id, log.occurred_at
                  FROM audit_chain AS chain
                    JOIN audit_log AS log ON log.org_id = chain.org_id AND log.entry_id = chain.entry_id
                  WHERE chain.org_id = due.org_id
                    ${ofOrganization("chain.org_id")}
                  ORDER BY chain.position
                  LIMIT ${rows}
                ) AS oldest
            ), ended AS MATERIALIZED (
              SELECT org_id, position, entry_id
              FROM beginning
              WHERE ends
              ORDER BY org_id, position
              LIMIT ${rows}
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
          `)
        })
      )
  },
  /**
   * Payloads of failed span batches that can no longer be replayed; their spans count as dropped. Works organization by
   * organization, by ids, which start with their creation time. Locks the log row first, as a replay does: a batch that
   * is queued again keeps its payload. If the log is retained for less time than payloads, the log row may be gone; such
   * a batch cannot be replayed and is deleted too. Destinations are locked in the same order everywhere, or two
   * transactions could deadlock. In a transaction, since one that stores spans may hold the lock of a destination.
   */
  telemetry_retention: {
    every: "1 minute",
    rows: 500,
    isByOrganization: true,
    deleteBatch: ({ cutoff, ofOrganization, rows, sql }) =>
      Effect.map(
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
                LIMIT ${rows}::int
              ) b
              LIMIT ${rows}::int
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
      )
  }
} satisfies Record<string, Expiry>

/** A retention, by the name of its worker. */
type Name = keyof typeof expiries

/** Runs one retention once. Replicas may run it concurrently. */
export const deleteExpired = Effect.fn("deleteExpired")(function* (name: Name, keep: Duration.Input) {
  const sql = yield* SqlClient.SqlClient
  const { deleteBatch, isByOrganization, rows }: Expiry = expiries[name]
  const cutoff = DateTime.subtractDuration(yield* (yield* StoreClock).now, keep)
  const deleteOf = (org_id: OrgId | undefined) =>
    deleteBatch({ sql, cutoff, rows, ofOrganization: (column) => onlyOrganization(sql, column, org_id) })
  // Rows that another transaction has locked are skipped: a batch with fewer rows than the most is not the last one.
  const limits = { rows: 1, steps: MAX_BATCHES }
  return yield* isByOrganization
    ? deleteOfOrganizations(sql, deleteOf, limits)
    : deleteInBatches(deleteOf(undefined), limits)
})

const layerExpiry = (name: Name, keep: Duration.Input) =>
  layerDueWorker({
    name,
    runOnce: Effect.map(deleteExpired(name, keep), toWorkerRun),
    every: expiries[name].every,
    // An unavailable database needs no quicker retry: the rows only wait longer.
    retryAfter: expiries[name].every
  })

/** How long rows are retained after they have ended. */
export interface RetentionPeriods {
  readonly auditRetention: Duration.Input
  readonly keyRetention: Duration.Input
  readonly telemetry: { readonly payloadRetention: Duration.Input }
}

/** The workers, one for each table. */
export const layer = (
  settings: RetentionPeriods
): Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> =>
  Layer.mergeAll(
    layerExpiry("idempotency_retention", RETENTION_MILLIS),
    layerExpiry("feedback_token_retention", 0),
    layerExpiry("budget_counter_retention", 0),
    layerExpiry("invitation_retention", INVITATION_RETENTION),
    layerExpiry("key_retention", settings.keyRetention),
    layerExpiry("audit_retention", settings.auditRetention),
    layerExpiry("telemetry_retention", settings.telemetry.payloadRetention)
  )
