import { DateTime, Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import {
  type DeliveryFilter,
  DELIVERIES_PAGE,
  ENDPOINT_LINE_HOURS,
  LoggedDeliveryStatus,
  MAX_EXAMINED_DELIVERIES,
  MAX_HOURLY_SAMPLE
} from "../../../api/console/Deliveries.ts"
import {
  ApprovalId,
  DeliveryId,
  EndpointId,
  EventId,
  type OrgId,
  TelemetryDeliveryId,
  MAX_CLOCK_SKEW,
  uuidTimePrefix
} from "../../../domain/Ids.ts"
import { TelemetryDelivery } from "../../../domain/telemetry/TelemetryDestination.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

const idAt = (at: Timestamp): string => `ndl_${uuidTimePrefix(at)}`

const endpointIdRows = rowsOf(Schema.Struct({ endpoint_id: EndpointId }))

/** The ids of the organization's endpoints; with `only`, of that one if it exists. At most 50. */
export const listEndpointIds = (sql: SqlClient.SqlClient, org_id: OrgId, only: EndpointId | undefined) =>
  endpointIdRows.all(sql`
    SELECT endpoint_id
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      ${only === undefined ? sql.literal("") : sql`AND endpoint_id = ${only}`}
    ORDER BY endpoint_id
  `)

const LogRow = Schema.Struct({
  id: DeliveryId,
  endpoint_id: EndpointId,
  event_id: EventId,
  label: Schema.String,
  status: Schema.Literals([...LoggedDeliveryStatus.literals, "partial"]),
  attempts: Schema.Int,
  replays: Schema.Int,
  status_code: Schema.NullOr(Schema.Int),
  last_error: Schema.NullOr(Schema.String),
  created_at: TimestampFromDate,
  finished_at: Schema.NullOr(TimestampFromDate)
})
/** A record of the log, with the label that names its event. */
export type LogRow = typeof LogRow.Type

const logRows = rowsOf(LogRow)

/** The filters, also with the status that only batches of spans have. */
type DestinationFilter = Omit<DeliveryFilter, "status" | "endpoint_id"> & {
  readonly status?: LoggedDeliveryStatus | "partial"
}

/** The conditions on columns that no index has. */
const conditions = (
  sql: SqlClient.SqlClient,
  { code, since, status, type, until }: DestinationFilter
): ReadonlyArray<Statement.Fragment> => [
  ...(status === undefined ? [] : [sql`status = ${status}`]),
  ...(code === undefined
    ? []
    : [code === 0 ? sql`(status_code IS NULL AND attempts > 0)` : sql`status_code = ${code}::int`]),
  ...(type === undefined ? [] : [sql`(label = ${type} OR starts_with(label, ${`${type} `}))`]),
  ...(since === undefined ? [] : [sql`created_at >= ${toDate(since)}::timestamptz`]),
  ...(until === undefined ? [] : [sql`created_at < ${toDate(until)}::timestamptz`])
]

const pageRows = rowsOf(
  Schema.Struct({
    endpoint_id: Schema.NullOr(EndpointId),
    delivery_id: Schema.NullOr(DeliveryId),
    horizon: Schema.NullOr(DeliveryId)
  })
)

/** Keys of one page of the log, newest first, and how far it has searched. */
export interface FoundDeliveries {
  readonly keys: ReadonlyArray<{ readonly endpoint_id: EndpointId; readonly delivery_id: DeliveryId }>
  /** Older deliveries than this have not been examined. Null: all have been, or the page is full. */
  readonly horizon: DeliveryId | null
}

/**
 * The newest deliveries of these endpoints that match, below the cursor. Each endpoint's deliveries are read by the primary key, newest
 * first, and at most `MAX_EXAMINED_DELIVERIES` in all. An endpoint with more has a floor, and deliveries older than the highest floor are
 * left to the next page.
 */
export const findDeliveries = (...parameters: Parameters<typeof findStatement>) =>
  Effect.map(pageRows.all(findStatement(...parameters)), (rows): FoundDeliveries => ({
    keys: rows.flatMap(({ delivery_id, endpoint_id }) =>
      endpoint_id === null || delivery_id === null ? [] : [{ endpoint_id, delivery_id }]
    ),
    horizon: rows.length > DELIVERIES_PAGE ? null : (rows[0]?.horizon ?? null)
  }))

/** The keys of the newest batches that match, below the cursor, as of {@link findDeliveries}. */
export const findBatches = (...parameters: Parameters<typeof findStatement>) =>
  Effect.map(batchPageRows.all(findStatement(...parameters)), (rows) => ({
    ids: rows.flatMap(({ delivery_id }) => (delivery_id === null ? [] : [delivery_id])),
    horizon: rows.length > DELIVERIES_PAGE ? null : (rows[0]?.horizon ?? null)
  }))

const batchPageRows = rowsOf(
  Schema.Struct({
    delivery_id: Schema.NullOr(TelemetryDeliveryId),
    horizon: Schema.NullOr(TelemetryDeliveryId)
  })
)

const destinationRows = rowsOf(Schema.Struct({ destination_id: Schema.String }))

/** The telemetry destinations of the organization: at most one. */
export const listTelemetryDestinations = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  destinationRows.all(sql`
    SELECT destination_id
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
  `)

const batchRows = rowsOf(
  Schema.Struct({
    ...TelemetryDelivery.fields,
    created_at: TimestampFromDate,
    finished_at: Schema.NullOr(TimestampFromDate)
  })
)

/** These batches of a telemetry destination, newest first. */
export const listBatches = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destination_id: string,
  ids: ReadonlyArray<TelemetryDeliveryId>
) =>
  batchRows.all(sql`
    SELECT
      delivery_id AS id, CASE WHEN label = 'scores' THEN 'scores' ELSE 'spans' END AS signal, status, size AS span_count,
      rejected AS rejected_spans, attempts, replays, status_code AS http_status, last_error, created_at, finished_at
    FROM deliveries
    WHERE org_id = ${org_id}
      AND destination_id = ${destination_id}
      AND delivery_id = ANY(${textArray(ids)}::text[])
    ORDER BY delivery_id DESC
  `)

/** The statement of {@link findDeliveries}. */
export const findStatement = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destinations: ReadonlyArray<string>,
  filter: DestinationFilter & { readonly cursor?: string },
  maxExamined = MAX_EXAMINED_DELIVERIES
) => {
  const where = conditions(sql, filter)
  const wanted = DELIVERIES_PAGE + 1
  const examined =
    where.length === 0 ? wanted : Math.max(wanted, Math.floor(maxExamined / Math.max(1, destinations.length)))
  const { cursor, since, until } = filter
  const range = sql.and([
    sql`org_id = ${org_id}`,
    sql`destination_id = e.endpoint_id`,
    ...(cursor === undefined ? [] : [sql`delivery_id < ${cursor}`]),
    ...(since === undefined
      ? []
      : [sql`delivery_id >= ${idAt(DateTime.subtractDuration(since, MAX_CLOCK_SKEW))}`]),
    ...(until === undefined ? [] : [sql`delivery_id < ${idAt(DateTime.addDuration(until, MAX_CLOCK_SKEW))}`])
  ])
  return sql`
    WITH endpoints AS MATERIALIZED (
      SELECT endpoint_id FROM unnest(${textArray(destinations)}::text[]) AS e (endpoint_id)
    ), found AS MATERIALIZED (
      SELECT e.endpoint_id, l.delivery_id
      FROM endpoints e
      CROSS JOIN LATERAL (
        SELECT delivery_id
        FROM (
          SELECT delivery_id, status, status_code, attempts, label, created_at
          FROM deliveries
          WHERE ${range}
          ORDER BY delivery_id DESC
          LIMIT ${examined}::int
        ) newest
        ${where.length === 0 ? sql.literal("") : sql`WHERE ${sql.and(where)}`}
        ORDER BY delivery_id DESC
        LIMIT ${wanted}::int
      ) l
    ), horizon AS MATERIALIZED (
      SELECT max(f.delivery_id) AS delivery_id
      FROM (
        SELECT e.endpoint_id
        FROM endpoints e
        LEFT JOIN found USING (endpoint_id)
        GROUP BY e.endpoint_id
        HAVING count(found.delivery_id) < ${wanted}::int
      ) e
      CROSS JOIN LATERAL (
        SELECT delivery_id
        FROM deliveries
        WHERE ${range}
        ORDER BY delivery_id DESC
        OFFSET ${examined - 1}::int
        LIMIT 1
      ) f
    )
    SELECT page.endpoint_id, page.delivery_id, horizon.delivery_id AS horizon
    FROM horizon
    LEFT JOIN LATERAL (
      SELECT endpoint_id, delivery_id
      FROM found
      WHERE horizon.delivery_id IS NULL OR found.delivery_id >= horizon.delivery_id
      ORDER BY delivery_id DESC
      LIMIT ${wanted}::int
    ) page ON true
    ORDER BY page.delivery_id DESC
  `
}

/** A period, by the creation of its deliveries. */
export interface FailedPeriod {
  readonly endpoint_id: EndpointId
  readonly since: Timestamp
  readonly until?: Timestamp
}

const countRows = rowsOf(Schema.Struct({ failed: Schema.Int, examined: Schema.Int }))

/** The failed deliveries of an endpoint among its newest `MAX_EXAMINED_DELIVERIES` of a period. */
export const countFailed = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { endpoint_id, since, until }: FailedPeriod
) =>
  Effect.map(
    countRows.first(sql`
      SELECT count(*) FILTER (WHERE status = 'failed')::int AS failed, count(*)::int AS examined
      FROM (
        SELECT status
        FROM deliveries
        WHERE ${sql.and([
          sql`org_id = ${org_id}`,
          sql`destination_id = ${endpoint_id}`,
          // The condition on ids uses the index, so that a short period does not read a long log.
          sql`delivery_id >= ${idAt(DateTime.subtractDuration(since, MAX_CLOCK_SKEW))}`,
          ...(until === undefined
            ? []
            : [sql`delivery_id < ${idAt(DateTime.addDuration(until, MAX_CLOCK_SKEW))}`]),
          ...conditions(sql, until === undefined ? { since } : { since, until })
        ])}
        ORDER BY delivery_id DESC
        LIMIT ${MAX_EXAMINED_DELIVERIES}::int
      ) newest
    `),
    (row) => ({
      failed: row?.failed ?? 0,
      is_complete: (row?.examined ?? 0) < MAX_EXAMINED_DELIVERIES
    })
  )

/** The records of these deliveries, newest first. */
export const listRecords = (sql: SqlClient.SqlClient, org_id: OrgId, keys: FoundDeliveries["keys"]) =>
  logRows.all(sql`
    SELECT
      d.delivery_id AS id, d.destination_id AS endpoint_id, d.event_id, d.label, d.status, d.attempts, d.replays,
      d.status_code, d.last_error, d.created_at, d.finished_at
    FROM unnest(
      ${textArray(keys.map((key) => key.endpoint_id))}::text[],
      ${textArray(keys.map((key) => key.delivery_id))}::text[]
    ) AS k (destination_id, delivery_id)
    JOIN deliveries d
      ON d.org_id = ${org_id}
      AND d.destination_id = k.destination_id
      AND d.delivery_id = k.delivery_id
    ORDER BY d.delivery_id DESC
  `)

const toolRows = rowsOf(Schema.Struct({ approval_id: ApprovalId, tool: Schema.String }))

/** The tools of these approvals. */
export const listTools = (sql: SqlClient.SqlClient, org_id: OrgId, approvals: ReadonlyArray<string>) =>
  toolRows.all(sql`
    SELECT approval_id, tool
    FROM approvals
    WHERE org_id = ${org_id}
      AND approval_id = ANY(${textArray(approvals)}::text[])
  `)

const bodyRows = rowsOf(Schema.Struct({ json: Schema.String }))

/** The JSON text of an event, as its deliveries send it. */
export const findEventJson = (sql: SqlClient.SqlClient, org_id: OrgId, event_id: EventId) =>
  bodyRows.first(sql`
    SELECT convert_from(body, 'UTF8') AS json
    FROM approval_events
    WHERE org_id = ${org_id}
      AND event_id = ${event_id}
  `)

const hourRows = rowsOf(Schema.Struct({ endpoint_id: EndpointId, delivered: Schema.Int, failed: Schema.Int }))

/**
 * Attempts of each endpoint by the hour in which their delivery was created, from `from` on, at most `MAX_HOURLY_SAMPLE` of each hour:
 * rows for each endpoint, in the order of the hours.
 */
export const listHours = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  endpoints: ReadonlyArray<EndpointId>,
  from: Timestamp
) => {
  const starts = Array.from({ length: ENDPOINT_LINE_HOURS + 1 }, (_, hour) =>
    idAt(DateTime.add(from, { hours: hour }))
  )
  return hourRows.all(sql`
    SELECT e.endpoint_id, counts.delivered, counts.failed
    FROM unnest(${textArray(endpoints)}::text[]) AS e (endpoint_id)
    CROSS JOIN unnest(
      ${textArray(starts.slice(0, -1))}::text[],
      ${textArray(starts.slice(1))}::text[]
    ) AS h (begins, ends)
    CROSS JOIN LATERAL (
      SELECT
        count(*) FILTER (WHERE error IS NULL)::int AS delivered,
        count(*) FILTER (WHERE error IS NOT NULL)::int AS failed
      FROM (
        SELECT error
        FROM delivery_attempts
        WHERE org_id = ${org_id}
          AND destination_id = e.endpoint_id
          AND delivery_id >= h.begins
          AND delivery_id < h.ends
          AND started_at >= ${toDate(DateTime.subtractDuration(from, MAX_CLOCK_SKEW))}::timestamptz
        LIMIT ${MAX_HOURLY_SAMPLE}::int
      ) sample
    ) counts
    ORDER BY e.endpoint_id, h.begins
  `)
}

/** The most failed attempts that are passed to find when an endpoint began to fail. */
const MAX_FAILURES = 2_000

/** The newest deliveries among which the last success is searched. */
const NEWEST_DELIVERIES = 1_000

const stateRows = rowsOf(
  Schema.Struct({
    endpoint_id: EndpointId,
    failing_since: Schema.NullOr(TimestampFromDate),
    last_error: Schema.NullOr(Schema.String),
    last_success_at: Schema.NullOr(TimestampFromDate)
  })
)

/** When each endpoint succeeded last, and since when and why it fails. */
export const listStates = (sql: SqlClient.SqlClient, org_id: OrgId, endpoints: ReadonlyArray<EndpointId>) =>
  stateRows.all(sql`
    SELECT
      e.endpoint_id,
      CASE WHEN h.consecutive_failures > 0 THEN (
        SELECT started_at
        FROM delivery_attempts
        WHERE org_id = ${org_id}
          AND destination_id = e.endpoint_id
          AND error IS NOT NULL
        ORDER BY started_at DESC
        OFFSET least(h.consecutive_failures, ${MAX_FAILURES}::int) - 1
        LIMIT 1
      ) END AS failing_since,
      CASE WHEN h.consecutive_failures > 0 THEN (
        SELECT error
        FROM delivery_attempts
        WHERE org_id = ${org_id}
          AND destination_id = e.endpoint_id
          AND error IS NOT NULL
        ORDER BY started_at DESC
        LIMIT 1
      ) END AS last_error,
      (
        SELECT finished_at
        FROM (
          SELECT status, finished_at
          FROM deliveries
          WHERE org_id = ${org_id}
            AND destination_id = e.endpoint_id
          ORDER BY delivery_id DESC
          LIMIT ${NEWEST_DELIVERIES}::int
        ) newest
        WHERE status = 'delivered'
        LIMIT 1
      ) AS last_success_at
    FROM unnest(${textArray(endpoints)}::text[]) AS e (endpoint_id)
    LEFT JOIN delivery_destinations h
      ON h.org_id = ${org_id}
      AND h.destination_id = e.endpoint_id
  `)
