import { createHash } from "node:crypto"
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type KeyId, type OrgId, ReleaseId, RunId, TaskId, type TraceId } from "../../../domain/Ids.ts"
import type { FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import type { FeedbackToken } from "../../../domain/tasks/FeedbackToken.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { hasRow, rowsOf } from "../../store/rows.ts"
import { modelCalls } from "../Feedback/rows.ts"
import { ofExistingTask } from "../requireTask.ts"

/** The members of an end user's stored feedback in which two requests with a token can differ. */
type StoredFeedback = Pick<FeedbackRecord, "score" | "score_value" | "score_label" | "comment">

/** The digest of feedback, of its redacted comment: by it, a repeated request is recognized. */
export const feedbackDigest = ({ comment, score, score_label, score_value }: StoredFeedback): string =>
  createHash("sha256")
    .update(JSON.stringify([score, score_value, score_label, comment]))
    .digest("hex")

const runAndKeyRows = rowsOf(
  Schema.Struct({ task_id: TaskId, key_expires_at: Schema.NullOr(TimestampFromDate) })
)

/** Finds the task of a run, and when a key expires. */
export const findRunAndKey = (sql: SqlClient.SqlClient, org_id: OrgId, trace_id: TraceId, key_id: KeyId) =>
  runAndKeyRows.first(sql`
    SELECT runs.task_id, api_keys.expires_at AS key_expires_at
    FROM runs
      JOIN api_keys USING (org_id)
    WHERE runs.org_id = ${org_id}
      AND runs.trace_id = ${trace_id}
      AND api_keys.key_id = ${key_id}
      AND ${ofExistingTask(sql, "runs")}
  `)

const keyRows = rowsOf(Schema.Struct({ name: Schema.String }))

/** Finds the key that created a token, if it can still be used. Not cached: a token ends with its key immediately. */
export const findUsableKey = (sql: SqlClient.SqlClient, { key_id, org_id }: FeedbackToken, now: Timestamp) =>
  keyRows.first(sql`
    SELECT name
    FROM api_keys
    WHERE org_id = ${org_id}
      AND key_id = ${key_id}
      AND revoked_at IS NULL
      AND (expires_at IS NULL OR expires_at > ${toDate(now)})
  `)

/**
 * Counts a use of a token, in the caller's transaction. Returns false if all are used up, or if the feedback is the same as
 * the last one.
 */
export const countTokenUse = (sql: SqlClient.SqlClient, token: FeedbackToken, digest: string) =>
  hasRow(sql`
    INSERT INTO feedback_token_uses AS used (org_id, token_id, uses, last_digest, expires_at)
    VALUES (
      ${token.org_id}, ${token.id}, 1, ${digest}, to_timestamp(${token.expires_at})
    )
    ON CONFLICT (org_id, token_id) DO UPDATE
    SET uses = used.uses + 1, last_digest = excluded.last_digest
    WHERE used.uses < ${token.max_uses}
      AND used.last_digest <> excluded.last_digest
    RETURNING 1 AS counted
  `)

/** Whether feedback is the same as the last one that a token was used for. */
export const isNewestFeedback = (sql: SqlClient.SqlClient, { id, org_id }: FeedbackToken, digest: string) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM feedback_token_uses
    WHERE org_id = ${org_id}
      AND token_id = ${id}
      AND last_digest = ${digest}
  `)

const runRows = rowsOf(
  Schema.Struct({
    task_id: TaskId,
    run_id: RunId,
    release_id: Schema.NullOr(ReleaseId),
    caller_traceparent: Schema.NullOr(Schema.String),
    provider_calls: Schema.Int
  })
)

/** Counts feedback of an end user on a run, in the caller's transaction; nothing if the run has `limit` or was deleted. */
export const countRunUse = (sql: SqlClient.SqlClient, { org_id, trace_id }: FeedbackToken, limit: number) =>
  runRows.first(sql`
    UPDATE runs
    SET end_user_feedback = end_user_feedback + 1
    WHERE org_id = ${org_id}
      AND trace_id = ${trace_id}
      AND end_user_feedback < ${limit}
      AND ${ofExistingTask(sql, "runs")}
    RETURNING task_id, run_id, CASE source WHEN 'provider' THEN release_id END AS release_id, caller_traceparent,
      ${modelCalls(sql)} AS provider_calls
  `)

/** Whether the run of a token exists. */
export const hasRun = (sql: SqlClient.SqlClient, { org_id, trace_id }: FeedbackToken) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM runs
    WHERE org_id = ${org_id}
      AND trace_id = ${trace_id}
      AND ${ofExistingTask(sql, "runs")}
  `)
