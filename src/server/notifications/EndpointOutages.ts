import { DateTime, Duration, Effect, type Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type AuditEntryId, EndpointId, OrgId } from "../../domain/Ids.ts"
import { TimestampFromDate, toDate } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import { claimFirst, MAX_CANDIDATES } from "../store/claimFirst.ts"
import { layerDueWorker } from "../store/layerDueWorker.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { Email } from "./Email.ts"

/** How long an endpoint has to fail until its organization is notified. */
const FAILING_FOR = Duration.hours(1)

/** Pause between two runs. */
const EVERY: Duration.Input = "1 minute"

/** Notices of one run; the next run follows at once if there are more. */
const MAX_NOTICES = 100

const FailingRow = Schema.Struct({ org_id: OrgId, endpoint_id: EndpointId, failing_since: TimestampFromDate })
const failing = rowsOf(FailingRow)

interface DisabledRow {
  readonly org_id: OrgId
  readonly endpoint_id: EndpointId
  readonly entry_id: AuditEntryId
}

/**
 * Notifies the admins of an organization once of each outage of a webhook endpoint: when it has failed for an hour (also in the audit log),
 * and when a 410 Gone response has disabled it. Reported outages are in the database, so that any replica can report the others, and a notice
 * that was not committed is made again. Outages are looked for in all organizations, by indexes that have nothing else.
 */
export const runOnce = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const audit = yield* Audit
  const email = yield* Email
  const atomically = atomic(sql)

  /** False: there is none. */
  const reportFailing = Effect.gen(function* () {
    const now = yield* clock.now
    const isUnreported = sql`
      failing_since <= ${toDate(DateTime.subtractDuration(now, FAILING_FOR))}::timestamptz
      AND outage_reported_at IS NULL
      AND cooldown_round > 0`
    const outage = yield* claimFirst(
      sql<Pick<typeof FailingRow.Type, "org_id" | "endpoint_id">>`
        SELECT d.org_id, d.destination_id AS endpoint_id
        FROM delivery_destinations d
        JOIN notification_endpoints p ON p.org_id = d.org_id AND p.endpoint_id = d.destination_id
        WHERE ${isUnreported}
          AND p.active
        ORDER BY d.failing_since
        LIMIT ${MAX_CANDIDATES}
      `,
      ({ endpoint_id, org_id }) =>
        failing.first(sql`
          UPDATE delivery_destinations
          SET outage_reported_at = ${toDate(now)}::timestamptz
          WHERE org_id = ${org_id}
            AND destination_id = (
              SELECT destination_id
              FROM delivery_destinations
              WHERE org_id = ${org_id}
                AND destination_id = ${endpoint_id}
                AND ${isUnreported}
              FOR NO KEY UPDATE SKIP LOCKED
            )
          RETURNING org_id, destination_id AS endpoint_id, failing_since
        `)
    )
    if (outage === undefined) return false
    const { endpoint_id, failing_since, org_id } = outage
    const entry_id = yield* audit.record({ org_id, actor: null }, "endpoint.failing", endpoint_id, {
      failing_since: DateTime.formatIso(failing_since)
    })
    yield* email.notifyAdmins(org_id, "endpoint.failing", entry_id)
    return true
  })

  /** False: there is none. */
  const reportDisabled = Effect.gen(function* () {
    const outage = yield* claimFirst(
      sql<DisabledRow>`
        SELECT org_id, endpoint_id, unreported_entry_id AS entry_id
        FROM notification_endpoints
        WHERE unreported_entry_id IS NOT NULL
        LIMIT ${MAX_CANDIDATES}
      `,
      ({ endpoint_id, entry_id, org_id }) =>
        Effect.map(
          sql`
            UPDATE notification_endpoints
            SET unreported_entry_id = NULL
            WHERE org_id = ${org_id}
              AND endpoint_id = (
                SELECT endpoint_id
                FROM notification_endpoints
                WHERE org_id = ${org_id}
                  AND endpoint_id = ${endpoint_id}
                  AND unreported_entry_id = ${entry_id}
                FOR NO KEY UPDATE SKIP LOCKED
              )
            RETURNING 1 AS reported
          `,
          (rows) => (rows.length === 0 ? undefined : { org_id, entry_id })
        )
    )
    if (outage === undefined) return false
    yield* email.notifyAdmins(outage.org_id, "endpoint.disabled", outage.entry_id)
    return true
  })

  let notices = 0
  for (const report of [atomically(reportFailing), atomically(reportDisabled)]) {
    while (notices < MAX_NOTICES && (yield* report)) notices++
  }
  return { notices, more: notices === MAX_NOTICES }
})

/** The worker `endpoint_outages`. */
export const layer: Layer.Layer<never, never, SqlClient.SqlClient | StoreClock | Audit | Email> =
  layerDueWorker({
    name: "endpoint_outages",
    runOnce: Effect.map(runOnce, ({ more, notices }) => ({
      counts: { notices },
      next: more ? "1 second" : undefined
    })),
    every: EVERY,
    retryAfter: EVERY
  })
