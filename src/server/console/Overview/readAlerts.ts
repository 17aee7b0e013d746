/** The conditions that need a person now. The console reads them every half minute, so each statement has a limit. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import {
  type Alerts,
  DUE_SOON_MINUTES,
  FAILING_ATTEMPTS,
  MAX_ALERT_COUNT,
  NEAR_LIMIT,
  STOPPED_DAYS
} from "../../../api/console/Overview.ts"
import { ReviewerStopReason } from "../../../domain/approvals/Reviewer.ts"
import { EndpointId, type OrgId, TaskId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import type { Delivery, DestinationHealth } from "../../delivery/Delivery.ts"
import type { StoredUsage } from "../../identity/StoredUsage.ts"
import { WEBHOOK } from "../../notifications/Notifications.ts"
import { currentTime } from "../../store/currentTime.ts"
import { textArray } from "../../store/pgArrays.ts"
import { countOf, rowsOf } from "../../store/rows.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { OTLP } from "../../telemetry/Spans.ts"

/** The most pending approvals among which the escalated ones are counted, those with the nearest deadlines. */
const MAX_SCANNED = 10_000

/** The most endpoints that are examined; more than an organization usually has. */
const MAX_ENDPOINTS = 100

const approvalRows = rowsOf(
  Schema.Struct({
    escalated: Schema.Int,
    due_soon: Schema.Int,
    next_due_at: Schema.NullOr(TimestampFromDate)
  })
)
const endpointRows = rowsOf(Schema.Struct({ id: EndpointId, name: Schema.String }))
const collectorRows = rowsOf(
  Schema.Struct({ id: Schema.String, name: Schema.String, waiting: Schema.Number })
)

interface Dependencies {
  readonly sql: SqlClient.SqlClient
  readonly clock: StoreClock["Service"]
  readonly delivery: Delivery["Service"]
  readonly usage: StoredUsage["Service"]
}

/** Counts approvals that are escalated or due soon, by the index of pending approvals. */
export const approvalStatement = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  org_id: OrgId
) => sql`
  SELECT
    (
      SELECT count(*)::int
      FROM (
        SELECT 1
        FROM (
          SELECT stage
          FROM approvals
          WHERE org_id = ${org_id}
            AND status = 'pending'
          ORDER BY expires_at, approval_id
          LIMIT ${MAX_SCANNED}::int
        ) AS nearest
        WHERE stage = 'admin'
        LIMIT ${MAX_ALERT_COUNT + 1}::int
      ) AS escalated
    ) AS escalated,
    (
      SELECT count(*)::int
      FROM (
        SELECT 1
        FROM approvals
        WHERE org_id = ${org_id}
          AND status = 'pending'
          AND expires_at <= ${currentTime(sql, clock)} + ${DUE_SOON_MINUTES}::int * interval '1 minute'
        LIMIT ${MAX_ALERT_COUNT + 1}::int
      ) AS due
    ) AS due_soon,
    (
      SELECT expires_at
      FROM approvals
      WHERE org_id = ${org_id}
        AND status = 'pending'
      ORDER BY expires_at, approval_id
      LIMIT 1
    ) AS next_due_at
`

/** Counts the unknown executions that the principal may resolve, by their index. */
const unknownStatement = (sql: SqlClient.SqlClient, { actor, makers, org_id }: Principal) => sql<{
  readonly count: number
}>`
  SELECT count(*)::int AS count
  FROM (
    SELECT 1
    FROM governed_steps
    WHERE org_id = ${org_id}
      AND execution = 'unknown'
      AND claimed_by_id <> ALL(${textArray([actor.id, ...makers])}::text[])
    LIMIT ${MAX_ALERT_COUNT + 1}::int
  ) AS unresolved
`

const readApprovals = Effect.fnUntraced(function* ({ clock, sql }: Dependencies, principal: Principal) {
  const { org_id, scopes } = principal
  const counted = yield* approvalRows.first(approvalStatement(sql, clock, org_id))
  const unknown = scopes.has("approvals.decide") ? yield* countOf(unknownStatement(sql, principal)) : 0
  return {
    ...(counted ?? { escalated: 0, due_soon: 0, next_due_at: null }),
    unknown_executions: unknown
  }
})

/** When a destination began to fail, unless so few attempts failed that it may be chance; and how full its queue is. */
const failureOf = (
  health: Pick<DestinationHealth, "consecutive_failures" | "failing_since"> | undefined,
  waiting: number,
  limit: number
) => ({
  failing_since:
    health !== undefined && health.consecutive_failures >= FAILING_ATTEMPTS ? health.failing_since : null,
  queue_use: waiting / limit
})

const isAlert = ({ failing_since, queue_use }: ReturnType<typeof failureOf>): boolean =>
  failing_since !== null || queue_use >= NEAR_LIMIT

const readEndpoints = Effect.fnUntraced(function* ({ delivery, sql }: Dependencies, org_id: OrgId) {
  const endpoints = yield* endpointRows.all(sql`
    SELECT endpoint_id AS id, coalesce(description, url_hint) AS name
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND active
    ORDER BY endpoint_id
    LIMIT ${MAX_ENDPOINTS}::int
  `)
  if (endpoints.length === 0) return []
  const healths = yield* delivery.health(
    org_id,
    endpoints.map(({ id }) => id)
  )
  return endpoints
    .map(({ id, name }) => {
      const health = healths.get(id)
      const waiting = health?.pending_deliveries ?? 0
      return { id, name, waiting, ...failureOf(health, waiting, delivery.queueLimit(WEBHOOK)) }
    })
    .filter(isAlert)
    .toSorted((a, b) => b.waiting - a.waiting)
})

const readCollector = Effect.fnUntraced(function* ({ delivery, sql }: Dependencies, org_id: OrgId) {
  const collector = yield* collectorRows.first(sql`
    SELECT destination_id AS id, url_hint AS name, waiting_spans::float8 AS waiting
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
  `)
  if (collector === undefined) return null
  const { id, name, waiting } = collector
  const health = (yield* delivery.health(org_id, [id])).get(id)
  const failure = failureOf(health, waiting, delivery.queueLimit(OTLP))
  return isAlert(failure) ? { name, ...failure } : null
})

const stoppedRows = rowsOf(
  Schema.Struct({
    id: TaskId,
    name: Schema.String,
    stopped_at: TimestampFromDate,
    stopped_reason: ReviewerStopReason
  })
)

/** The reviewer models that the service has stopped lately. An organization has few. */
const readStoppedReviewers = ({ clock, sql }: Dependencies, org_id: OrgId) =>
  stoppedRows.all(sql`
    SELECT reviewers.task_id AS id, tasks.name, stopped_at, stopped_reason
    FROM reviewers
      JOIN tasks ON tasks.org_id = reviewers.org_id AND tasks.task_id = reviewers.task_id
    WHERE reviewers.org_id = ${org_id}
      AND state = 'stopped'
      AND stopped_by_id IS NULL
      AND stopped_at > ${currentTime(sql, clock)} - ${STOPPED_DAYS}::int * interval '1 day'
    ORDER BY stopped_at DESC
  `)

/** Reads the alerts that the principal may see. */
export const readAlerts = Effect.fnUntraced(function* (dependencies: Dependencies, principal: Principal) {
  const { org_id, scopes } = principal
  const seesConfig = scopes.has("org_config.read")
  const alerts: Alerts = {
    approvals: scopes.has("approvals.read") ? yield* readApprovals(dependencies, principal) : null,
    endpoints: seesConfig ? yield* readEndpoints(dependencies, org_id) : null,
    collector: seesConfig ? yield* readCollector(dependencies, org_id) : null,
    reviewers: scopes.has("rules.write") ? yield* readStoppedReviewers(dependencies, org_id) : null,
    limits: seesConfig
      ? (yield* dependencies.usage.shares(org_id)).filter(({ use }) => use >= NEAR_LIMIT)
      : []
  }
  return alerts
})
