import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type FeedbackOverview, OVERVIEW_RELEASES, OVERVIEW_ROWS } from "../../../api/console/Overview.ts"
import { type OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"
import { MAX_COUNTERS } from "./counters.ts"

const scores = { positive: Schema.Int, neutral: Schema.Int, negative: Schema.Int }

const dayRows = rowsOf(Schema.Struct({ day: Schema.String, ...scores }))

const runRows = rowsOf(Schema.Struct({ day: Schema.String, runs: Schema.Int }))

const releaseRows = rowsOf(
  Schema.Struct({
    task_id: TaskId,
    task_name: Schema.String,
    release_id: ReleaseId,
    number: Schema.Int,
    created_at: TimestampFromDate,
    live: Schema.Boolean,
    runs: Schema.Int,
    ...scores
  })
)

const releasedRows = rowsOf(
  Schema.Struct({ day: Schema.String, task_id: TaskId, task_name: Schema.String, release_id: ReleaseId })
)

/** Reads how people judged an organization's answers on the given days, which are consecutive. */
export const readFeedback = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  days: ReadonlyArray<string>
) {
  const since = days[0] ?? ""
  const counted = sql`
    SELECT day, task_id, release_id, positive, neutral, negative
    FROM feedback_counts
    WHERE org_id = ${org_id}
      AND day >= ${since}::text::date
    ORDER BY day DESC
    LIMIT ${MAX_COUNTERS}
  `
  const feedback = yield* dayRows.all(sql`
    SELECT
      day::text AS day, sum(positive)::int AS positive, sum(neutral)::int AS neutral, sum(negative)::int AS negative
    FROM (${counted}) AS counted
    GROUP BY counted.day
  `)
  const runs = yield* runRows.all(sql`
    SELECT day::text AS day, sum(runs)::int AS runs
    FROM (
      SELECT day, runs
      FROM run_counts
      WHERE org_id = ${org_id}
        AND day >= ${since}::text::date
      ORDER BY day DESC
      LIMIT ${MAX_COUNTERS}
    ) AS counted
    GROUP BY counted.day
  `)
  const releases = yield* releaseRows.all(sql`
    SELECT
      judged.task_id, tasks.name AS task_name, judged.release_id, releases.number, releases.created_at,
      tasks.live_release_id = judged.release_id AS live, positive, neutral, negative,
      coalesce((
        SELECT sum(run_counts.runs)
        FROM generate_series(${since}::text::date, ${days.at(-1) ?? ""}::text::date, interval '1 day') AS period (at)
          JOIN run_counts
            ON run_counts.org_id = ${org_id}
            AND run_counts.day = period.at::date
            AND run_counts.task_id = judged.task_id
            AND run_counts.release_id = judged.release_id
      ), 0)::int AS runs
    FROM (
      SELECT
        task_id, release_id, sum(positive)::int AS positive, sum(neutral)::int AS neutral,
        sum(negative)::int AS negative
      FROM (${counted}) AS counted
      -- The others were answered by clients.
      WHERE release_id <> ''
      GROUP BY task_id, release_id
      HAVING sum(positive + neutral + negative) > 0
      ORDER BY sum(positive + neutral + negative) DESC, release_id DESC
      LIMIT ${OVERVIEW_ROWS}
    ) AS judged
      JOIN tasks ON tasks.org_id = ${org_id} AND tasks.task_id = judged.task_id
      JOIN releases ON releases.org_id = ${org_id} AND releases.release_id = judged.release_id
    ORDER BY positive + neutral + negative DESC, judged.release_id DESC
  `)
  const released = yield* releasedRows.all(sql`
    SELECT (releases.created_at AT TIME ZONE 'UTC')::date::text AS day, task_id, tasks.name AS task_name, release_id
    FROM releases
      JOIN tasks USING (org_id, task_id)
    WHERE releases.org_id = ${org_id}
      AND release_id >= ${ReleaseId.lowerBound(DateTime.makeUnsafe(`${since}T00:00:00Z`))}
    ORDER BY release_id DESC
    LIMIT ${OVERVIEW_RELEASES}
  `)
  const feedbackOf = new Map(feedback.map((row) => [row.day, row]))
  const runsOf = new Map(runs.map((row) => [row.day, row.runs]))
  const all = days.map((day) => {
    const { negative = 0, neutral = 0, positive = 0 } = feedbackOf.get(day) ?? {}
    return { day, runs: runsOf.get(day) ?? 0, positive, neutral, negative }
  })
  const total = { runs: 0, positive: 0, neutral: 0, negative: 0 }
  for (const { negative, neutral, positive, runs: count } of all) {
    total.runs += count
    total.positive += positive
    total.neutral += neutral
    total.negative += negative
  }
  const overview: FeedbackOverview = { total, days: all, releases, released: released.toReversed() }
  return overview
})
