import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { FeedbackId, OrgId } from "../../../domain/Ids.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { rowsOf } from "../../store/rows.ts"

const answerRows = rowsOf(Schema.Struct({ answer: Schema.NullOr(JsonObject) }))

/** Reads the answer that feedback corrects; null if the run failed, or if the run or the feedback was deleted. */
export const readCorrectedAnswer = (sql: SqlClient.SqlClient, org_id: OrgId, feedback_id: FeedbackId) =>
  Effect.map(
    answerRows.first(sql`
      SELECT runs.answer
      FROM feedback
        JOIN runs USING (org_id, trace_id)
      WHERE feedback.org_id = ${org_id}
        AND feedback.feedback_id = ${feedback_id}
    `),
    (row) => row?.answer ?? null
  )
