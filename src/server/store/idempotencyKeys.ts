import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { IdempotencyKeyInUse, IdempotencyKeyReused } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { hasRow } from "./rows.ts"

/** How long a key and its response are retained. */
export const RETENTION_MILLIS = 24 * 3_600_000

/** How long a duplicate request waits for the response of the first, in milliseconds. */
export const WAIT_MILLIS = 5_000

/** Longer than any operation under a key takes: a key without a response after this time belongs to a process that died. */
const ABANDONED_AFTER_MILLIS = 150_000

/** An idempotency key is scoped to an organization and an operation. */
export interface IdempotencyKey {
  readonly org_id: OrgId
  readonly operation: string
  readonly key: string
}

/** The place that a key's response is sealed for. */
export const responsePlace = ({ key, operation, org_id }: IdempotencyKey) => ({
  org_id,
  table: "idempotency_keys",
  row_id: `${operation} ${key}`,
  column: "answer"
})

const isKey = (sql: SqlClient.SqlClient, { key, operation, org_id }: IdempotencyKey) => sql`
  org_id = ${org_id}
  AND operation = ${operation}
  AND key = ${key}
`

/**
 * The end of an `INSERT INTO idempotency_keys AS existing`: a claimed key stays as it is and is not returned, except that an expired or
 * abandoned claim is taken over. `now` is the time of the new claim.
 */
export const takeOverClaim = (sql: SqlClient.SqlClient, now: Date) => sql`
  ON CONFLICT (org_id, operation, key) DO UPDATE
  SET fingerprint = excluded.fingerprint, created_at = excluded.created_at, answer = excluded.answer
  WHERE existing.created_at < ${before(now, RETENTION_MILLIS)}
    OR (existing.answer IS NULL AND existing.created_at < ${before(now, ABANDONED_AFTER_MILLIS)})
`

const before = (now: Date, millis: number): Date => new Date(now.getTime() - millis)

/** Claims a key as of `now`. Returns false if another request has claimed it; an expired or abandoned claim is taken over. */
export const claimKey = (
  sql: SqlClient.SqlClient,
  { key, operation, org_id }: IdempotencyKey,
  fingerprint: Uint8Array,
  now: Date
) =>
  hasRow(sql`
    INSERT INTO idempotency_keys AS existing (org_id, operation, key, fingerprint, created_at)
    VALUES (${org_id}, ${operation}, ${key}, ${fingerprint}, ${now})
    ${takeOverClaim(sql, now)}
    RETURNING 1 AS claimed
  `)

const decodeRows = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ fingerprint: Schema.Uint8Array, answer: Schema.NullOr(Schema.Uint8Array) }))
)

/** The sealed response of a key, or none if its request is in progress. Fails if the key was claimed by a different request. */
export const findResponse = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  key: IdempotencyKey,
  fingerprint: Uint8Array
) {
  const [row] = yield* sql`
    SELECT fingerprint, answer
    FROM idempotency_keys
    WHERE ${isKey(sql, key)}
  `.pipe(Effect.flatMap(decodeRows), Effect.orDie)
  if (row !== undefined && !Buffer.from(row.fingerprint).equals(fingerprint)) {
    return yield* new IdempotencyKeyReused({
      detail: "This Idempotency-Key was used for a different request or by another API key. Use a new key."
    })
  }
  return Option.fromNullishOr(row?.answer)
})

/** Stores the sealed response of the claim made at `claimedAt`. Does nothing if another request has taken the key over since. */
export const storeResponse = (
  sql: SqlClient.SqlClient,
  key: IdempotencyKey,
  claimedAt: Date,
  sealed: Uint8Array
) => sql`
  UPDATE idempotency_keys
  SET answer = ${sealed}
  WHERE ${isKey(sql, key)}
    AND created_at = ${claimedAt}
`

/** Releases the claim made at `claimedAt` if it has no response. */
export const releaseKey = (sql: SqlClient.SqlClient, key: IdempotencyKey, claimedAt: Date) => sql`
  DELETE FROM idempotency_keys
  WHERE ${isKey(sql, key)}
    AND created_at = ${claimedAt}
    AND answer IS NULL
`

/** The failure of a duplicate request that waited too long for the response of the first. */
export const requestInProgress = Effect.fail(
  new IdempotencyKeyInUse({ detail: "The first request with this key is still in progress. Retry shortly." })
)
