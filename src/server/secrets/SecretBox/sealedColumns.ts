import { Schema } from "effect"
import type { Place } from "./Sealed.ts"

/** A column whose values are sealed. */
export interface SealedColumn {
  readonly table: string
  readonly column: string
  /** The columns that, together with `org_id`, identify a row; none if the organization has one row. */
  readonly key: ReadonlyArray<string>
  /** Set if the column contains credentials of the organization, which redaction removes from texts: see `KnownSecrets`. */
  readonly credentials?: Credentials
  /** Set if rows are deleted within days: there can be millions. */
  readonly expires?: true
}

/** How the credentials in a column are read. */
export interface Credentials {
  /** The credentials in one unsealed value. */
  readonly parse: (plaintext: string) => ReadonlyArray<string>
  /** Reads only the newest rows by this column; by default all rows. */
  readonly newest?: { readonly by: string; readonly limit: number }
}

const oneSecret: Credentials = { parse: (plaintext) => [plaintext] }

const decodeHeaders = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))
)

/** The request headers of a collector or a provider, sealed as one JSON object. */
const headerValues: Credentials = { parse: (plaintext) => Object.values(decodeHeaders(plaintext)) }

/**
 * One key for each of the 10,000 tasks that an organization may have. An organization has more rows only by keys for base URLs that its
 * tasks no longer use.
 */
const providerKeys = { newest: { by: "updated_at", limit: 10_000 } }

/**
 * Every sealed column of the database. A rotation of the master key reseals exactly these columns, so a column that is missing here becomes
 * unreadable when the old key is removed; a test compares the list with the schema.
 */
export const sealedColumns: ReadonlyArray<SealedColumn> = [
  { table: "notification_endpoints", column: "url", key: ["endpoint_id"] },
  { table: "notification_endpoints", column: "secret", key: ["endpoint_id"], credentials: oneSecret },
  {
    table: "notification_endpoints",
    column: "previous_secret",
    key: ["endpoint_id"],
    credentials: oneSecret
  },
  {
    table: "provider_keys",
    column: "api_key",
    key: ["task_id", "base_url"],
    credentials: { ...oneSecret, ...providerKeys }
  },
  {
    table: "provider_keys",
    column: "headers",
    key: ["task_id", "base_url"],
    credentials: { ...headerValues, ...providerKeys }
  },
  { table: "telemetry_destinations", column: "url", key: ["destination_id"] },
  { table: "telemetry_destinations", column: "headers", key: ["destination_id"], credentials: headerValues },
  { table: "telemetry_batches", column: "payload", key: ["batch_id"], expires: true },
  { table: "idempotency_keys", column: "answer", key: ["operation", "key"], expires: true },
  { table: "end_user_peppers", column: "pepper", key: [] }
]

/** The place that a value of a column is sealed for. The parts of the row's key are separated by a space. */
export const placeOf = (
  { column, table }: SealedColumn,
  org_id: string,
  key: ReadonlyArray<string>
): Place => ({ org_id, table, row_id: key.join(" "), column })
