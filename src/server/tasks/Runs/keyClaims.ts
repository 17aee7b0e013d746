import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { takeOverClaim } from "../../store/idempotencyKeys.ts"
import { boolArray, byteaArray, int8Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"

/** A claim of an idempotency key together with the response, for a run whose response is known before it is logged. */
export interface KeyClaim {
  readonly operation: string
  readonly key: string
  readonly fingerprint: Uint8Array
  readonly claimed_at: Timestamp
  /** The sealed response. */
  readonly answer: Uint8Array
}

/** A row that may claim a key. */
interface ClaimingRow {
  readonly run: { readonly org_id: OrgId }
  readonly claim: KeyClaim | undefined
}

/** A claim with the number of its row, from 1. */
interface NumberedClaim {
  readonly number: number
  readonly org_id: OrgId
  readonly claim: KeyClaim
  /** Whether a row before claims the same key. A statement cannot insert a key twice. */
  readonly isRepeated: boolean
}

/** The claims of rows, numbered. */
export const claimsOf = (rows: ReadonlyArray<ClaimingRow>): ReadonlyArray<NumberedClaim> => {
  const keys = new Set<string>()
  return rows.flatMap(({ claim, run: { org_id } }, index) => {
    if (claim === undefined) return []
    const key = `${org_id} ${claim.operation} ${claim.key}`
    const isRepeated = keys.has(key)
    keys.add(key)
    return [{ number: index + 1, org_id, claim, isRepeated }]
  })
}

/** Claims the keys of the runs that are current. `unclaimed`: the numbers of the runs whose key is claimed already. */
export const claimCtes = (sql: SqlClient.SqlClient, claims: ReadonlyArray<NumberedClaim>) => sql`
    , claims AS (
      SELECT *
      FROM unnest(
        ${int8Array(claims.map(({ number }) => number))}::bigint[],
        ${textArray(claims.map(({ org_id }) => org_id))}::text[],
        ${textArray(claims.map(({ claim }) => claim.operation))}::text[],
        ${textArray(claims.map(({ claim }) => claim.key))}::text[],
        ${byteaArray(claims.map(({ claim }) => claim.fingerprint))}::bytea[],
        ${timestamptzArray(claims.map(({ claim }) => claim.claimed_at))}::timestamptz[],
        ${byteaArray(claims.map(({ claim }) => claim.answer))}::bytea[],
        ${boolArray(claims.map(({ isRepeated }) => isRepeated))}::bool[]
      ) AS c (number, org_id, operation, key, fingerprint, created_at, answer, is_repeated)
    ), claimed AS (
      INSERT INTO idempotency_keys AS existing (org_id, operation, key, fingerprint, created_at, answer)
      SELECT c.org_id, c.operation, c.key, c.fingerprint, c.created_at, c.answer
      FROM claims c
        JOIN checked USING (number)
      WHERE is_current
        AND NOT is_repeated
      -- All statements claim keys in the same order, or two of them could deadlock.
      ORDER BY c.org_id, c.operation, c.key
      ${takeOverClaim(sql, new Date(Math.min(...claims.map(({ claim }) => claim.claimed_at.epochMilliseconds))))}
      RETURNING org_id, operation, key
    ), unclaimed AS (
      SELECT number
      FROM claims c
      WHERE is_repeated
        OR NOT EXISTS (
          SELECT 1
          FROM claimed
          WHERE claimed.org_id = c.org_id
            AND claimed.operation = c.operation
            AND claimed.key = c.key
        )
    )
`
