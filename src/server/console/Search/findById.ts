import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { SearchGroup, SearchKind, SearchResult } from "../../../api/console/Search.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { uuidTimePrefix } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"
import { kindScopes, readRecords, readRecordsByPrefix, tableKinds } from "./records.ts"

/** Records of one kind with the start of an id. */
const MAX_OF_PREFIX = 10

/** Digits of an id from which its start is searched for: fewer are words, such as `key_1`. */
const MIN_DIGITS = 6

/** Tasks among which a run is searched for by its id, and endpoints for a delivery. */
const MAX_OWNERS = 1_000

/** Seconds around the generation of an event's id in which its deliveries are created. */
const DELIVERY_SECONDS = 5

/** Deliveries of that time that are read for an event. */
const MAX_DELIVERIES = 2_000

const ID = new RegExp(`^([a-z]{3})_([0-9a-f]{${MIN_DIGITS},32})$`, "u")
const TRACE = /^[0-9a-f]{8,32}$/u
/** The header of a trace, as it is pasted from a log. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/u

const runRows = rowsOf(
  Schema.Struct({
    trace_id: Schema.String,
    run_id: Schema.String,
    task_name: Schema.String,
    status: Schema.String,
    created_at: TimestampFromDate
  })
)

const deliveryRows = rowsOf(
  Schema.Struct({
    delivery_id: Schema.String,
    destination_id: Schema.String,
    label: Schema.String,
    status: Schema.String,
    created_at: TimestampFromDate
  })
)

const approvalRows = rowsOf(Schema.Struct({ approval_id: Schema.String }))

/**
 * Finds records by an id, its start, or a trace id, among the records that the principal may read. Every statement reads a range of a primary
 * key, or one of each task or endpoint.
 */
export const findById = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { org_id, scopes }: Principal,
  typed: string
) {
  const may = (kind: SearchKind) => scopes.has(kindScopes[kind])
  const text = typed.trim().toLowerCase()
  const traceparent = TRACEPARENT.exec(text)?.[1]
  if (traceparent !== undefined || TRACE.test(text)) {
    return may("run") ? groupOf("run", yield* findRunsByTrace(sql, org_id, traceparent ?? text)) : []
  }
  const match = ID.exec(text)
  if (match === null) return []
  const [, prefix = "", digits = ""] = match
  const kind = tableKinds[prefix]
  if (kind !== undefined) {
    return may(kind) ? groupOf(kind, yield* readRecordsByPrefix(sql, org_id, kind, text, MAX_OF_PREFIX)) : []
  }
  if (digits.length < 32) return []
  if (prefix === "run") return may("run") ? groupOf("run", yield* findRun(sql, org_id, text)) : []
  if (prefix === "ndl")
    return may("delivery") ? groupOf("delivery", yield* findDelivery(sql, org_id, text)) : []
  if (prefix === "evt") {
    const approval = may("approval")
      ? yield* approvalRows.first(sql`
          SELECT approval_id
          FROM approval_events
          WHERE org_id = ${org_id}
            AND event_id = ${text}
            AND approval_id IS NOT NULL
        `)
      : undefined
    return [
      ...(approval === undefined
        ? []
        : groupOf("approval", yield* readRecords(sql, org_id, "approval", [approval.approval_id]))),
      ...(may("delivery") ? groupOf("delivery", yield* findDeliveriesOfEvent(sql, org_id, text)) : [])
    ]
  }
  return []
})

const groupOf = (kind: SearchKind, results: ReadonlyArray<SearchResult>): ReadonlyArray<SearchGroup> =>
  results.length === 0 ? [] : [{ kind, results, next_cursor: null }]

const toRuns = (rows: Effect.Success<ReturnType<typeof runRows.all>>) =>
  rows.map(({ created_at, run_id, status, task_name, trace_id }): SearchResult => ({
    kind: "run",
    id: run_id,
    page: `/runs/${trace_id}`,
    title: task_name,
    detail: trace_id,
    status,
    created_at
  }))

const findRunsByTrace = (sql: SqlClient.SqlClient, org_id: OrgId, trace: string) =>
  Effect.map(
    runRows.all(sql`
      SELECT trace_id, run_id, tasks.name AS task_name, status, runs.created_at
      FROM runs
        JOIN tasks USING (org_id, task_id)
      WHERE org_id = ${org_id}
        AND trace_id >= ${trace}
        AND trace_id < ${`${trace}g`}
      ORDER BY trace_id
      LIMIT ${MAX_OF_PREFIX}
    `),
    toRuns
  )

const findRun = (sql: SqlClient.SqlClient, org_id: OrgId, run_id: string) =>
  Effect.map(
    runRows.all(sql`
      SELECT trace_id, run_id, task.name AS task_name, status, run.created_at
      FROM (
        SELECT task_id, name
        FROM tasks
        WHERE org_id = ${org_id}
        ORDER BY task_id DESC
        LIMIT ${MAX_OWNERS}
      ) AS task
        CROSS JOIN LATERAL (
          SELECT trace_id, run_id, status, created_at
          FROM runs
          WHERE org_id = ${org_id}
            AND runs.task_id = task.task_id
            AND run_id = ${run_id}
        ) AS run
      LIMIT 1
    `),
    toRuns
  )

const toDeliveries = (rows: Effect.Success<ReturnType<typeof deliveryRows.all>>) =>
  rows.map(({ created_at, delivery_id, destination_id, label, status }): SearchResult => ({
    kind: "delivery",
    id: delivery_id,
    page: `/endpoints/${destination_id}/deliveries/${delivery_id}`,
    title: label,
    detail: destination_id,
    status,
    created_at
  }))

const findDelivery = (sql: SqlClient.SqlClient, org_id: OrgId, delivery_id: string) =>
  Effect.map(
    deliveryRows.all(sql`
      SELECT delivery_id, destination_id, label, status, created_at
      FROM deliveries
      WHERE org_id = ${org_id}
        AND destination_id = ANY(ARRAY(
          SELECT endpoint_id
          FROM notification_endpoints
          WHERE org_id = ${org_id}
          LIMIT ${MAX_OWNERS}
        ))
        AND delivery_id = ${delivery_id}
      LIMIT 1
    `),
    toDeliveries
  )

/** The ids of deliveries are generated right after that of their event: the primary key finds them by that time. */
const findDeliveriesOfEvent = (sql: SqlClient.SqlClient, org_id: OrgId, event_id: string) => {
  const at = DateTime.makeUnsafe(Number.parseInt(event_id.slice(4, 16), 16))
  const bound = (seconds: number) => `ndl_${uuidTimePrefix(DateTime.add(at, { seconds }))}`
  return Effect.map(
    deliveryRows.all(sql`
      SELECT delivery_id, destination_id, label, status, created_at
      FROM (
        SELECT endpoint_id
        FROM notification_endpoints
        WHERE org_id = ${org_id}
        LIMIT ${MAX_OWNERS}
      ) AS endpoint
        CROSS JOIN LATERAL (
          SELECT *
          FROM (
            SELECT *
            FROM deliveries
            WHERE org_id = ${org_id}
              AND destination_id = endpoint.endpoint_id
              AND delivery_id >= ${bound(-DELIVERY_SECONDS)}
              AND delivery_id < ${bound(DELIVERY_SECONDS)}
            ORDER BY delivery_id
            LIMIT ${MAX_DELIVERIES}
          ) AS around
          WHERE event_id = ${event_id}
        ) AS delivery
      ORDER BY delivery_id DESC
      LIMIT ${MAX_OF_PREFIX}
    `),
    toDeliveries
  )
}
