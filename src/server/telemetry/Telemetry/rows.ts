import { Array as Arr, Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../../store/Cluster.ts"
import { KeyId, OrgId, TelemetryDestinationId } from "../../../domain/Ids.ts"
import { Compression, ScoreFormat, TraceMode } from "../../../domain/telemetry/TelemetryDestination.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { hasRow, rowsOf } from "../../store/rows.ts"
import type { Place } from "../../secrets/SecretBox.ts"
import { raiseSecretsVersion } from "../../secrets/secretsVersion.ts"

/** A destination to insert, with its URL and headers sealed. */
const DestinationRow = Schema.Struct({
  org_id: OrgId,
  destination_id: TelemetryDestinationId,
  url: Schema.Uint8Array,
  url_hint: Schema.String,
  headers: Schema.Uint8Array,
  content: Schema.Boolean,
  trace: TraceMode,
  scores: ScoreFormat,
  compression: Compression,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String
})
type DestinationRow = typeof DestinationRow.Type

/** The columns of a destination that the API returns. */
const DestinationSummary = Schema.Struct({
  id: TelemetryDestinationId,
  url_hint: Schema.String,
  content: Schema.Boolean,
  trace: TraceMode,
  scores: ScoreFormat,
  compression: Compression,
  created_at: TimestampFromDate,
  last_delivered_at: Schema.NullOr(TimestampFromDate),
  waiting_spans: Schema.Int,
  dropped_spans: Schema.Int
})

/** The sealed URL of a destination and the sealed headers of its requests. */
const SealedAddress = Schema.Struct({ url: Schema.Uint8Array, headers: Schema.Uint8Array })
export type SealedAddress = typeof SealedAddress.Type

const summaryRows = rowsOf(DestinationSummary)
const testedRows = rowsOf(
  Schema.Struct({
    ...SealedAddress.fields,
    scores: ScoreFormat,
    compression: Compression,
    gzip_refused: Schema.Boolean
  })
)

/** The place of a sealed column, which is authenticated with it (AEAD). */
export const destinationPlace = (
  org_id: OrgId,
  destination_id: string,
  column: "url" | "headers"
): Place => ({ org_id, table: "telemetry_destinations", row_id: destination_id, column })

/** Returns the organization's destination, if it has one. */
export const findDestination = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  return Option.fromUndefinedOr(
    yield* summaryRows.first(sql`
    SELECT
      destination_id AS id, url_hint, content, trace, scores, compression, created_at, last_delivered_at,
      waiting_spans::float8 AS waiting_spans, dropped_spans::float8 AS dropped_spans
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
  `)
  )
})

/** The `url_hint` of the destination that the organization created last, if the audit log still has it. */
export const findPreviousHint = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  Effect.map(
    sql<{ readonly url_hint: string | null }>`
      SELECT detail->>'url_hint' AS url_hint
      FROM audit_log
      WHERE org_id = ${org_id}
        AND action = 'destination.created'
      ORDER BY entry_id DESC
      LIMIT 1
    `,
    (rows) => rows[0]?.url_hint ?? undefined
  )

/** Remembers that the collector takes requests without compression only. */
export const rememberRefusedGzip = (sql: SqlClient.SqlClient, org_id: OrgId, destination_id: string) =>
  Effect.asVoid(
    Effect.orDie(sql`
      UPDATE telemetry_destinations
      SET gzip_refused = true
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
    `)
  )

/** Whether the organization owns this destination. */
export const hasDestination = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destination_id: TelemetryDestinationId
) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
      AND destination_id = ${destination_id}
  `)

/** Locks the organization's destination and its counts until the transaction ends. Returns whether it exists. */
export const lockDestinationForUpdate = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destination_id: TelemetryDestinationId
) =>
  lockOnNode(
    sql,
    org_id,
    hasRow(sql`
      SELECT 1 AS locked
      FROM telemetry_destinations
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
      FOR NO KEY UPDATE
    `)
  )

/** Inserts a destination. Returns false if the organization already has one. */
export const insertDestination = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, row: DestinationRow) {
  const values = yield* Schema.encodeEffect(DestinationRow)(row)
  const rows = yield* sql`
    INSERT INTO telemetry_destinations ${sql.insert(values)}
    ON CONFLICT (org_id) DO NOTHING
    RETURNING 1 AS inserted
  `
  if (rows.length > 0) yield* raiseSecretsVersion(row.org_id)
  return rows.length > 0
})

/** Deletes a destination with its payloads. Returns its pending spans, or none if it does not exist. */
export const deleteDestination = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destination_id: TelemetryDestinationId
) {
  const rows = yield* sql<{ readonly waiting: number }>`
    DELETE FROM telemetry_destinations
    WHERE org_id = ${org_id}
      AND destination_id = ${destination_id}
    RETURNING waiting_spans::float8 AS waiting
  `
  if (rows.length > 0) {
    yield* sql`
      DELETE FROM telemetry_batches
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
    `
  }
  return Option.map(Arr.head(rows), ({ waiting }) => waiting)
})

/**
 * Returns the sealed address for a test at most once in `seconds`, over all replicas; none if it is too early or the
 * destination does not exist.
 */
export const claimTest = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destination_id: TelemetryDestinationId,
  now: Timestamp,
  seconds: number
) {
  return Option.fromUndefinedOr(
    yield* testedRows.first(sql`
    UPDATE telemetry_destinations
    SET tested_at = ${toDate(now)}
    WHERE org_id = ${org_id}
      AND destination_id = ${destination_id}
      AND (tested_at > ${toDate(now)}::timestamptz - ${seconds}::float8 * interval '1 second') IS NOT TRUE
    RETURNING url, headers, scores, compression, gzip_refused
  `)
  )
})

/** Whole seconds, at least 1, until `claimTest` returns an address again. */
export const secondsUntilNextTest = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destination_id: TelemetryDestinationId,
  now: Timestamp,
  seconds: number
) =>
  sql<{ readonly seconds: number }>`
    SELECT ceil(${seconds}::float8 - extract(epoch FROM ${toDate(now)}::timestamptz - tested_at))::int AS seconds
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
      AND destination_id = ${destination_id}
  `.pipe(Effect.map(([found]) => Math.max(1, Math.min(found?.seconds ?? 1, seconds))))
