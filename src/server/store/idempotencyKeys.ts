import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { IdempotencyKeyInUse, IdempotencyKeyReused } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"

/** How long an answer is kept. */
export const RETENTION = "24 hours"

/** How long a second request waits for the first one's answer. */
export const WAIT_MILLIS = 5_000

/** Nothing takes as long that is done under a key: one that has no answer after this was left by a process that died. */
const ABANDONED_AFTER = "150 seconds"

/** A key of an organization, for one operation. */
export interface IdempotencyKey {
  readonly org_id: OrgId
  readonly operation: string
  readonly key: string
}

/** Where a key's answer is sealed to. */
export const answerPlace = ({ key, operation, org_id }: IdempotencyKey) => ({
  org_id,
  table: "idempotency_keys",
  row_id: `${operation} ${key}`,
  column: "answer"
})

const rowOf = (sql: SqlClient.SqlClient, { key, operation, org_id }: IdempotencyKey) => sql`
  org_id = ${org_id}
  AND operation = ${operation}
  AND key = ${key}
`

/** Takes a key as of now; false where it is taken. */
export const claimKey = (
  sql: SqlClient.SqlClient,
  { key, operation, org_id }: IdempotencyKey,
  fingerprint: Uint8Array,
  now: Date
) =>
  sql`
    INSERT INTO idempotency_keys AS kept (org_id, operation, key, fingerprint, created_at)
    VALUES (${org_id}, ${operation}, ${key}, ${fingerprint}, ${now})
    ON CONFLICT (org_id, operation, key) DO UPDATE
    SET fingerprint = excluded.fingerprint, created_at = excluded.created_at, answer = NULL
    WHERE kept.created_at < ${now}::timestamptz - ${RETENTION}::interval
      OR (kept.answer IS NULL AND kept.created_at < ${now}::timestamptz - ${ABANDONED_AFTER}::interval)
    RETURNING 1 AS taken
  `.pipe(Effect.map((rows) => rows.length > 0))

const decodeKept = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ fingerprint: Schema.Uint8Array, answer: Schema.NullOr(Schema.Uint8Array) }))
)

/** The sealed answer under a key that was taken for the same request; none where there is none yet. */
export const findAnswer = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  key: IdempotencyKey,
  fingerprint: Uint8Array
) {
  const rows = yield* sql`
    SELECT fingerprint, answer
    FROM idempotency_keys
    WHERE ${rowOf(sql, key)}
  `.pipe(Effect.flatMap(decodeKept), Effect.orDie)
  const [kept] = rows
  if (kept !== undefined && !Buffer.from(kept.fingerprint).equals(fingerprint)) {
    return yield* new IdempotencyKeyReused({
      detail: "An Idempotency-Key is for one request of one API key: use another"
    })
  }
  return Option.fromNullishOr(kept?.answer)
})

/** Keeps the sealed answer of what took the key then: another may have taken it over since. */
export const storeAnswer = (
  sql: SqlClient.SqlClient,
  key: IdempotencyKey,
  taken: Date,
  sealed: Uint8Array
) => sql`
  UPDATE idempotency_keys
  SET answer = ${sealed}
  WHERE ${rowOf(sql, key)}
    AND created_at = ${taken}
`

/** Gives a key back that was taken then and has no answer. */
export const releaseKey = (sql: SqlClient.SqlClient, key: IdempotencyKey, taken: Date) => sql`
  DELETE FROM idempotency_keys
  WHERE ${rowOf(sql, key)}
    AND created_at = ${taken}
    AND answer IS NULL
`

/** What a second request is answered with that has waited long enough. */
export const requestInProgress = Effect.fail(
  new IdempotencyKeyInUse({ detail: "The first request with this key is still at work; ask again" })
)
