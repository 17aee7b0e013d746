import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type OrgId, ReleaseId, type TaskId } from "../../../domain/Ids.ts"
import {
  type FeedbackQuality,
  MAX_QUALITY_ROWS,
  scoreMean,
  sumByRelease
} from "../../../domain/tasks/FeedbackQuality.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

const CountRow = Schema.Struct({
  day: Schema.String,
  release_id: Schema.NullOr(ReleaseId),
  positive: Schema.Int,
  neutral: Schema.Int,
  negative: Schema.Int
})

const countRows = rowsOf(CountRow)

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
      sum(positive)::int AS positive, sum(neutral)::int AS neutral, sum(negative)::int AS negative
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
  const daily = rows.map((row) => ({ ...row, score_mean: scoreMean(row) }))
  const quality: FeedbackQuality = { releases: sumByRelease(daily), days: daily }
  return quality
})
