import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { OrgId } from "../../../domain/Ids.ts"
import { int8Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** Amounts that an organization stores, or by which they change. */
export interface StoredAmounts {
  readonly runs: number
  readonly feedback: number
  /** An estimate, see `StoredUsage`. */
  readonly bytes: number
}

const usageRows = rowsOf(
  Schema.Struct({ org_id: OrgId, runs: Schema.Number, feedback: Schema.Number, bytes: Schema.Number })
)

/** The stored amounts of an organization; undefined if nothing was added yet. */
export const readUsage = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  usageRows.first(sql`
    SELECT org_id, runs::float8 AS runs, feedback::float8 AS feedback, bytes::float8 AS bytes
    FROM organization_usage
    WHERE org_id = ${org_id}
  `)

/**
 * Adds to the stored amounts of organizations, and returns the new ones. In order of the key, so that replicas do not
 * deadlock. A killed replica loses its last additions, and their rows are subtracted nevertheless when they are deleted: an amount
 * ends at 0, so that none of the next is free.
 */
export const addUsage = (
  sql: SqlClient.SqlClient,
  added: ReadonlyArray<readonly [org_id: OrgId, amounts: StoredAmounts]>
) => {
  const amounts = (of: (one: StoredAmounts) => number) =>
    sql`${int8Array(added.map(([, one]) => Math.round(of(one))))}::bigint[]`
  const add = usageRows.all(sql`
    INSERT INTO organization_usage AS stored (org_id, runs, feedback, bytes)
    SELECT org_id, runs, feedback, bytes
    FROM unnest(
      ${textArray(added.map(([org_id]) => org_id))}::text[],
      ${amounts(({ runs }) => runs)},
      ${amounts(({ feedback }) => feedback)},
      ${amounts(({ bytes }) => bytes)}
    ) AS added (org_id, runs, feedback, bytes)
    ORDER BY org_id COLLATE "C"
    ON CONFLICT (org_id) DO UPDATE SET
      runs = greatest(0, stored.runs + excluded.runs),
      feedback = greatest(0, stored.feedback + excluded.feedback),
      bytes = greatest(0, stored.bytes + excluded.bytes)
    RETURNING org_id, runs::float8 AS runs, feedback::float8 AS feedback, bytes::float8 AS bytes
  `)
  const subtracted = added.filter(([, { bytes, feedback, runs }]) => Math.min(bytes, feedback, runs) < 0)
  if (subtracted.length === 0) return add
  // A row is subtracted from only if it exists: inserted with negative amounts, it would not end at 0.
  const insertZeros = sql`
    INSERT INTO organization_usage (org_id, runs, feedback, bytes)
    SELECT org_id, 0, 0, 0
    FROM unnest(${textArray(subtracted.map(([org_id]) => org_id))}::text[]) AS subtracted (org_id)
    ORDER BY org_id COLLATE "C"
    ON CONFLICT (org_id) DO NOTHING
  `
  return Effect.andThen(insertZeros, add)
}
