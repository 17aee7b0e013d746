import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type OrgId, ReleaseId, type TaskId } from "../../../domain/Ids.ts"
import { MAX_SCORE_LABELS } from "../../../domain/tasks/Feedback.ts"
import {
  type FeedbackQuality,
  type LabelCount,
  MAX_QUALITY_ROWS,
  sumByRelease,
  toDailyFeedback
} from "../../../domain/tasks/FeedbackQuality.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

const CountRow = Schema.Struct({
  day: Schema.String,
  release_id: Schema.NullOr(ReleaseId),
  positive: Schema.Int,
  neutral: Schema.Int,
  negative: Schema.Int,
  value_excess: Schema.Finite
})

const countRows = rowsOf(CountRow)

const labelRows = rowsOf(
  Schema.Struct({ release_id: Schema.NullOr(ReleaseId), label: Schema.String, count: Schema.Int })
)

/** Reads the counts of feedback of the last `days` days up to today, in UTC. */
export const readQuality = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  { days, now }: { readonly days: number; readonly now: Timestamp }
) {
  const since = DateTime.formatIsoDateUtc(DateTime.subtract(now, { days: days - 1 }))
  const rows = yield* countRows.all(sql`
    SELECT
      day::text AS day, nullif(release_id, '') AS release_id,
      sum(positive)::int AS positive, sum(neutral)::int AS neutral, sum(negative)::int AS negative,
      (sum(value_excess) / 1000000)::float8 AS value_excess
    FROM feedback_counts
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND day >= ${since}::text::date
    GROUP BY feedback_counts.day, feedback_counts.release_id
    -- The sums are 0 after the feedback was deleted.
    HAVING sum(positive + neutral + negative) > 0
    ORDER BY feedback_counts.day DESC, feedback_counts.release_id DESC
    LIMIT ${MAX_QUALITY_ROWS}
  `)
  // Of the same days as the totals, which cover fewer days than were asked for if there are many releases.
  const labels = yield* labelRows.all(sql`
    SELECT release_id, label, count
    FROM (
      SELECT
        nullif(release_id, '') AS release_id, score_label AS label, sum(count)::int AS count,
        row_number() OVER (PARTITION BY release_id ORDER BY sum(count) DESC, score_label) AS rank
      FROM feedback_label_counts
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND day >= ${rows.length < MAX_QUALITY_ROWS ? since : (rows.at(-1)?.day ?? since)}::text::date
      GROUP BY feedback_label_counts.release_id, score_label
      HAVING sum(count) > 0
    ) AS ranked
    WHERE rank <= ${MAX_SCORE_LABELS}
    ORDER BY release_id, rank
    LIMIT ${MAX_QUALITY_ROWS}
  `)
  const byRelease = new Map<ReleaseId | null, Array<LabelCount>>()
  for (const { count, label, release_id } of labels) {
    const ofRelease = byRelease.get(release_id) ?? []
    ofRelease.push({ label, count })
    byRelease.set(release_id, ofRelease)
  }
  const quality: FeedbackQuality = {
    releases: sumByRelease(rows, (release_id) => byRelease.get(release_id) ?? []),
    days: rows.map(toDailyFeedback)
  }
  return quality
})
