import { Effect, Metric } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import {
  approvalsClosed,
  approvalsOldestPending,
  approvalsPending,
  executionsUnknown,
  executionsUnresolved
} from "../observability/metricDefinitions.ts"
import { collectAtMostEvery, type MetricCollector } from "../observability/Metrics.ts"
import { currentTime } from "../store/currentTime.ts"
import { countOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** The most approvals that are counted. */
export const MAX_COUNTED_APPROVALS = 100_000

/** How often the pending approvals are counted, however often metrics are read. */
const EVERY = "1 minute"

/** The causes that can close an approval, each with either outcome. */
const sources = ["human", "timeout", "session_closed"] as const
const outcomes = ["allow", "reject"] as const

/**
 * The number of pending approvals of all organizations, up to a limit, and the age of the oldest in seconds.
 * Reads an index that has pending approvals only. Names no organization, because it is for the operator.
 */
export const readPendingApprovals = (sql: SqlClient.SqlClient, now: Statement.Fragment) =>
  Effect.map(
    sql<{ readonly pending: number; readonly seconds: number }>`
      SELECT count(*)::int AS pending, greatest(0, coalesce(extract(epoch FROM ${now} - min(requested_at)), 0))::float8 AS seconds
      FROM (
        SELECT requested_at
        FROM approvals
        WHERE next_due_at IS NOT NULL
        ORDER BY next_due_at, approval_id
        LIMIT ${MAX_COUNTED_APPROVALS}::int
      ) AS counted
    `,
    ([row]) => row ?? { pending: 0, seconds: 0 }
  )

/** The executions of all organizations that a person has to resolve, counted up to a limit. Names no organization, because it is for the operator. */
export const readUnresolvedExecutions = (sql: SqlClient.SqlClient) =>
  countOf(sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM (
      SELECT 1
      FROM governed_steps
      WHERE execution = 'unknown'
      LIMIT ${MAX_COUNTED_APPROVALS}::int
    ) AS counted
  `)

/** Updates the gauges of approvals and executions. */
export const makeApprovalCollector: Effect.Effect<MetricCollector, never, SqlClient.SqlClient | StoreClock> =
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const clock = yield* StoreClock
    // Prometheus sees an increase only from an existing value, so the counters exist before their first increment.
    for (const outcome of outcomes) {
      for (const source of sources) yield* Metric.update(approvalsClosed(outcome, source), 0)
    }
    yield* Metric.update(executionsUnknown(), 0)
    return yield* collectAtMostEvery(
      EVERY,
      Effect.gen(function* () {
        const { pending, seconds } = yield* readPendingApprovals(sql, currentTime(sql, clock))
        yield* Metric.update(approvalsPending, pending)
        yield* Metric.update(approvalsOldestPending, seconds)
        yield* Metric.update(executionsUnresolved, yield* readUnresolvedExecutions(sql))
      })
    )
  })
