import { DateTime, Duration, Effect, type Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { AuditEntryId, EndpointId, OrgId } from "../../domain/Ids.ts"
import { TimestampFromDate, toDate } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
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

const failing = rowsOf(
  Schema.Struct({ org_id: OrgId, endpoint_id: EndpointId, failing_since: TimestampFromDate })
)
const disabled = rowsOf(Schema.Struct({ org_id: OrgId, entry_id: AuditEntryId }))

/**
 * Notifies the admins of an organization once of each outage of a webhook endpoint: when it has failed for an hour (also in the audit log),
 * and when a 410 Gone response has disabled it. What was reported is in the database, so that any replica can report it, and a notice that
 * was not committed is made again. The statements name no organization: outages are looked for in all of them, by indexes that have nothing else.
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
    const outage = yield* failing.first(sql`
      UPDATE delivery_destinations d
      SET outage_reported_at = ${toDate(now)}::timestamptz
      FROM (
        SELECT d.org_id, d.destination_id
        FROM delivery_destinations d
        JOIN notification_endpoints p ON p.org_id = d.org_id AND p.endpoint_id = d.destination_id
        WHERE d.failing_since <= ${toDate(DateTime.subtractDuration(now, FAILING_FOR))}::timestamptz
          AND d.outage_reported_at IS NULL
          AND d.cooldown_round > 0
          AND p.active
        ORDER BY d.failing_since
        LIMIT 1
        FOR NO KEY UPDATE OF d SKIP LOCKED
      ) AS found
      WHERE d.org_id = found.org_id
        AND d.destination_id = found.destination_id
      RETURNING d.org_id, d.destination_id AS endpoint_id, d.failing_since
    `)
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
    const outage = yield* disabled.first(sql`
      UPDATE notification_endpoints p
      SET unreported_entry_id = NULL
      FROM (
        SELECT org_id, endpoint_id, unreported_entry_id
        FROM notification_endpoints
        WHERE unreported_entry_id IS NOT NULL
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
      ) AS found
      WHERE p.org_id = found.org_id
        AND p.endpoint_id = found.endpoint_id
      RETURNING p.org_id, found.unreported_entry_id AS entry_id
    `)
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
