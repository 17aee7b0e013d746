import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type ApprovalOverview, MAX_COUNTED_PENDING, OVERVIEW_ROWS } from "../../../api/console/Overview.ts"
import { KeyId, type OrgId } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"
import { MAX_COUNTERS } from "./counters.ts"

const pendingRows = rowsOf(Schema.Struct({ count: Schema.Int, oldest: Schema.NullOr(TimestampFromDate) }))

const closedColumns = {
  approved: Schema.Int,
  rejected: Schema.Int,
  timed_out: Schema.Int,
  session_closed: Schema.Int
}

/** `day` is null for the sum of all days. */
const dayRows = rowsOf(
  Schema.Struct({ day: Schema.NullOr(Schema.String), ...closedColumns, escalated: Schema.Int })
)

/** The buckets of the percentiles. `day` is null for the buckets of all days. */
const timeRows = rowsOf(
  Schema.Struct({ day: Schema.NullOr(Schema.String), p50: Schema.Int, p95: Schema.Int })
)

const toolRows = rowsOf(Schema.Struct({ tool: Schema.String, ...closedColumns }))

const peopleRows = rowsOf(
  Schema.Struct({
    key_id: KeyId,
    name: Schema.NullOr(Schema.String),
    approved: Schema.Int,
    rejected: Schema.Int
  })
)

const noneClosed = { approved: 0, rejected: 0, timed_out: 0, session_closed: 0, escalated: 0 }

/** Reads how an organization's approvals were decided on the given days, which are consecutive. */
export const readApprovals = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  days: ReadonlyArray<string>
) {
  const since = days[0] ?? ""
  const until = days.at(-1) ?? ""
  const pending = yield* pendingRows.first(sql`
    SELECT
      (
        SELECT count(*)::int
        FROM (
          SELECT 1
          FROM approvals
          WHERE org_id = ${org_id}
            AND status = 'pending'
          LIMIT ${MAX_COUNTED_PENDING + 1}
        ) AS counted
      ) AS count,
      (
        -- Ids are in the order of the requests.
        SELECT requested_at
        FROM approvals
        WHERE org_id = ${org_id}
          AND status = 'pending'
        ORDER BY approval_id
        LIMIT 1
      ) AS oldest
  `)
  const byOutcome = sql`
    coalesce(sum(closed) FILTER (WHERE outcome = 'approved'), 0)::int AS approved,
    coalesce(sum(closed) FILTER (WHERE outcome = 'rejected'), 0)::int AS rejected,
    coalesce(sum(closed) FILTER (WHERE outcome = 'timeout'), 0)::int AS timed_out,
    coalesce(sum(closed) FILTER (WHERE outcome = 'session_closed'), 0)::int AS session_closed
  `
  const closed = yield* dayRows.all(sql`
    SELECT approval_counts.day::text AS day, ${byOutcome}, coalesce(sum(escalated), 0)::int AS escalated
    FROM approval_counts
    WHERE org_id = ${org_id}
      -- A day that has begun since the clock was read is left out.
      AND day BETWEEN ${since}::text::date AND ${until}::text::date
    GROUP BY GROUPING SETS ((approval_counts.day), ())
  `)
  const times = yield* timeRows.all(sql`
    SELECT
      day::text AS day,
      min(bucket) FILTER (WHERE faster >= ceil(0.5 * decided))::int AS p50,
      min(bucket) FILTER (WHERE faster >= ceil(0.95 * decided))::int AS p95
    FROM (
      SELECT
        day, bucket, sum(count) OVER (PARTITION BY day ORDER BY bucket) AS faster, sum(count) OVER (PARTITION BY day) AS decided
      FROM (
        SELECT day, bucket, sum(closed) AS count
        FROM approval_counts
        WHERE org_id = ${org_id}
          AND day BETWEEN ${since}::text::date AND ${until}::text::date
          AND bucket >= 0
        GROUP BY GROUPING SETS ((day, bucket), (bucket))
        HAVING sum(closed) > 0
      ) AS counted
    ) AS ranked
    GROUP BY ranked.day
  `)
  const groups = (kind: "tool" | "person") => sql`
    SELECT
      name, ${byOutcome}
    FROM (
      SELECT name, outcome, closed
      FROM approval_group_counts
      WHERE org_id = ${org_id}
        AND day >= ${since}::text::date
        AND kind = ${kind}
      ORDER BY day DESC
      LIMIT ${MAX_COUNTERS}
    ) AS counted
    GROUP BY name
    HAVING sum(closed) > 0
    ORDER BY sum(closed) DESC, name
    LIMIT ${OVERVIEW_ROWS}
  `
  const tools = yield* toolRows.all(sql`
    SELECT name AS tool, approved, rejected, timed_out, session_closed
    FROM (${groups("tool")}) AS grouped
  `)
  const people = yield* peopleRows.all(sql`
    SELECT grouped.name AS key_id, api_keys.name, approved, rejected
    FROM (${groups("person")}) AS grouped
      LEFT JOIN api_keys ON api_keys.org_id = ${org_id} AND api_keys.key_id = grouped.name
    ORDER BY approved + rejected DESC, grouped.name
  `)
  const closedOn = new Map(closed.map(({ day, ...counts }) => [day, counts]))
  const timesOn = new Map(times.map(({ day, p50, p95 }) => [day, { p50, p95 }]))
  const figuresOf = (day: string | null) => {
    const time = timesOn.get(day)
    return {
      ...(closedOn.get(day) ?? noneClosed),
      p50_seconds: time === undefined ? null : bucketSeconds(time.p50),
      p95_seconds: time === undefined ? null : bucketSeconds(time.p95)
    }
  }
  const count = pending?.count ?? 0
  const overview: ApprovalOverview = {
    pending: {
      count: Math.min(count, MAX_COUNTED_PENDING),
      more: count > MAX_COUNTED_PENDING,
      oldest_requested_at: pending?.oldest ?? null
    },
    total: figuresOf(null),
    days: days.map((day) => ({ day, ...figuresOf(day) })),
    tools,
    people
  }
  return overview
})

/**
 * Times to decision, counted in buckets: bucket n has the times from 1.1 to the power of n to 1.1 to the power of n + 1 seconds. So a
 * percentile over any number of approvals is read from at most 163 counts per day, and is at most 5 % off.
 */
const RATIO = 1.1

/** The time in the middle of a bucket, in seconds. Times under a second are in bucket 0. */
export const bucketSeconds = (bucket: number): number => RATIO ** (bucket + 0.5)
