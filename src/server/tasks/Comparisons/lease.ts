/**
 * The lease of a comparison. A replica that claims a running comparison raises its `lease_epoch` and renews the lease while it works. After
 * a crash the lease expires and another replica claims the comparison. Every write checks the epoch, so a replica that lost its lease is
 * fenced: its writes match no row.
 *
 * All times of a lease are the database's, read by the statement that writes or checks them: a replica whose clock is wrong neither keeps
 * a comparison nor takes one too early.
 */
import type { Duration } from "effect"
import type { SqlClient } from "effect/sql"
import type { ComparisonId, OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { claimFirst, MAX_CANDIDATES } from "../../store/claimFirst.ts"
import { currentTime, timeFromNow } from "../../store/currentTime.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { type ComparisonRow, comparisonColumns, comparisonRows } from "./rows.ts"
import { countOf, hasRow } from "../../store/rows.ts"

const isClaimable = (sql: SqlClient.SqlClient, clock: StoreClock["Service"]) =>
  sql`status = 'running' AND (lease_until IS NULL OR lease_until <= ${currentTime(sql, clock)})`

/**
 * Claims the running comparison whose lease expired longest ago, so that comparisons are worked on in rotation. Returns `undefined` if
 * there is none. Raises the epoch, which fences the previous owner, and counts the attempt.
 */
export const claimComparison = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  lease: Duration.Duration
) =>
  claimFirst(
    sql<{ readonly org_id: OrgId; readonly comparison_id: ComparisonId }>`
      SELECT org_id, comparison_id
      FROM comparisons
      WHERE ${isClaimable(sql, clock)}
      ORDER BY lease_until NULLS FIRST
      LIMIT ${MAX_CANDIDATES}
    `,
    ({ comparison_id, org_id }) =>
      comparisonRows.first(sql`
        UPDATE comparisons
        SET lease_epoch = lease_epoch + 1, attempts = attempts + 1, lease_until = ${timeFromNow(sql, clock, lease)}
        WHERE org_id = ${org_id}
          AND comparison_id = (
            SELECT comparison_id
            FROM comparisons
            WHERE org_id = ${org_id}
              AND comparison_id = ${comparison_id}
              AND ${isClaimable(sql, clock)}
            FOR NO KEY UPDATE SKIP LOCKED
          )
        RETURNING ${sql.literal(comparisonColumns)}
      `)
  )

/** Counts the running comparisons without a live lease, up to `limit`. */
export const countClaimable = (sql: SqlClient.SqlClient, clock: StoreClock["Service"], limit: number) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM (
      SELECT 1
      FROM comparisons
      WHERE ${isClaimable(sql, clock)}
      LIMIT ${limit}
    ) claimable
  `)

/**
 * Extends the lease, if this epoch still owns the comparison. Returns whether it does. The owner of a
 * cancelled one keeps it until it has recorded the calls that were in progress.
 */
export const renewLease = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  row: ComparisonRow,
  lease: Duration.Duration
) =>
  hasRow(sql`
    UPDATE comparisons
    SET lease_until = ${timeFromNow(sql, clock, lease)}
    WHERE org_id = ${row.org_id}
      AND comparison_id = ${row.comparison_id}
      AND lease_epoch = ${row.lease_epoch}
      AND status IN ('running', 'cancelled')
    RETURNING 1 AS renewed
  `)

/**
 * Releases the lease, if this epoch still owns the comparison. Another worker can claim it after `backoff`. An attempt
 * that is not counted leaves the failure budget as it was.
 */
export const releaseLease = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  row: ComparisonRow,
  { backoff, isCounted }: { readonly backoff: Duration.Duration; readonly isCounted: boolean }
) => sql`
  UPDATE comparisons
  SET lease_until = ${timeFromNow(sql, clock, backoff)}, attempts = GREATEST(0, attempts - ${isCounted ? 0 : 1})
  WHERE org_id = ${row.org_id}
    AND comparison_id = ${row.comparison_id}
    AND lease_epoch = ${row.lease_epoch}
    AND status = 'running'
`

/** Ends a comparison as failed, if this epoch still owns it. */
export const failComparison = (
  sql: SqlClient.SqlClient,
  row: ComparisonRow,
  failure: string,
  now: Timestamp
) => sql`
  UPDATE comparisons
  SET status = 'failed', failure = ${failure}, finished_at = ${toDate(now)}
  WHERE org_id = ${row.org_id}
    AND comparison_id = ${row.comparison_id}
    AND lease_epoch = ${row.lease_epoch}
    AND status = 'running'
`
