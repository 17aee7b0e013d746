import { createHash } from "node:crypto"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

const MODULUS = 2n ** 128n

/** Counts lines and adds up their hashes, so that the same lines in any order have the same digest. */
export const makeRowsDigest = () => {
  let rows = 0
  let sum = 0n
  return {
    add: (line: string): void => {
      rows++
      sum += BigInt(`0x${createHash("sha256").update(line).digest("hex").slice(0, 32)}`)
    },
    result: (): RowsDigest => ({ rows, digest: (sum % MODULUS).toString(16) })
  }
}

/** Number and digest of the rows of a table. */
export interface RowsDigest {
  readonly rows: number
  readonly digest: string
}

/**
 * The digest of rows whose own digests are in the column `digest` of a query, the same as that of their lines by {@link makeRowsDigest}.
 * The sums of both halves are signed, and their carry is added here.
 */
export const readRowsDigest = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  query: string,
  parameters: ReadonlyArray<string> = []
) {
  const [found] = yield* sql.unsafe<{
    readonly rows: number
    readonly high: string
    readonly low: string
    readonly negative: string
  }>(
    `
      SELECT
        count(*)::float8 AS rows,
        coalesce(sum(high), 0)::text AS high,
        coalesce(sum(low), 0)::text AS low,
        count(*) FILTER (WHERE low < 0)::text AS negative
      FROM (
        SELECT ('x' || left(hex, 16))::bit(64)::bigint AS high, ('x' || right(hex, 16))::bit(64)::bigint AS low
        FROM (
          SELECT replace(digest::text, '-', '') AS hex
          FROM (${query}) AS rows
          -- Computes each digest once.
          OFFSET 0
        ) AS digests
        OFFSET 0
      ) AS halves
    `,
    parameters
  )
  const { high, low, negative, rows } = found ?? { rows: 0, high: "0", low: "0", negative: "0" }
  const sum = (BigInt(high) + BigInt(negative)) * 2n ** 64n + BigInt(low)
  const result: RowsDigest = { rows, digest: (((sum % MODULUS) + MODULUS) % MODULUS).toString(16) }
  return result
})
