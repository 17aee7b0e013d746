import type { Place } from "./Sealed.ts"

/** A column whose values are sealed. Every one there is must be listed: what is not is left behind when the master key changes. */
export interface SealedColumn {
  readonly table: string
  readonly column: string
  /** The columns that, with `org_id`, tell a row. */
  readonly key: readonly [string, ...Array<string>]
}

/** Every sealed column of the store. */
export const sealedColumns: ReadonlyArray<SealedColumn> = [
  { table: "notification_endpoints", column: "url", key: ["endpoint_id"] },
  { table: "notification_endpoints", column: "secret", key: ["endpoint_id"] },
  { table: "notification_endpoints", column: "previous_secret", key: ["endpoint_id"] },
  { table: "provider_keys", column: "api_key", key: ["task_id", "base_url"] },
  { table: "telemetry_destinations", column: "url", key: ["destination_id"] },
  { table: "telemetry_destinations", column: "headers", key: ["destination_id"] },
  { table: "telemetry_batches", column: "payload", key: ["batch_id"] },
  { table: "idempotency_keys", column: "answer", key: ["operation", "key"] }
]

/** Where a value of a column was sealed for: by its row's key, the parts apart by a blank. */
export const placeOf = (
  { column, table }: SealedColumn,
  org_id: string,
  key: ReadonlyArray<string>
): Place => ({ org_id, table, row_id: key.join(" "), column })
