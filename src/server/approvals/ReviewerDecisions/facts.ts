import { DateTime, Duration, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { MAX_REVIEWED_ARGUMENTS } from "../../../domain/approvals/Reviewer/reviewerDecision.ts"
import type { KeyId, OrgId, SessionId, StepId, TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

const factRows = rowsOf(
  Schema.Struct({
    is_saved: Schema.Boolean,
    is_persons: Schema.Boolean,
    may_have_advance: Schema.Boolean,
    is_repeated: Schema.Boolean,
    is_reviewers: Schema.Boolean
  })
)

/**
 * Answers of models that did not approve a step of one tool in one session and hour, after which people decide its further ones: an agent
 * must not vary a call until a model approves.
 */
export const MAX_REFUSALS = 3
const REFUSALS_LAST = Duration.hours(1)

/** The newest approvals that are searched for the same call: of the session, and of all that closed within `REFUSALS_LAST`. */
const MAX_COMPARED_CALLS = 200

/** The largest arguments that they can have, in bytes: a character takes three at most. */
const MAX_CALL_BYTES = 3 * MAX_REVIEWED_ARGUMENTS

/** A step before it is put to a reviewer. */
interface AskedStep {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly step_id: StepId
  readonly task_id: TaskId | null
  readonly tool: string
  readonly action_class: string
  /** The arguments as JSON; null: there are none. */
  readonly argumentsJson: string | null
  readonly requested_by_id: KeyId
  readonly now: Timestamp
}

/**
 * Reads what decides whether a step is put to a reviewer. `may_have_advance`: a person's grant for the tool or a person's counter-proposal in the
 * session, which comes first; whether it allows the step is found out under the session's lock. `is_repeated`: under another id, the same
 * call waits in the session or was not approved there, or was not approved in any session just now; or models did not approve several calls of
 * the tool in the session just now.
 */
export const readFacts = (sql: SqlClient.SqlClient, step: AskedStep) => {
  const { action_class, argumentsJson, now, org_id, requested_by_id, session_id, step_id, task_id, tool } =
    step
  const since = toDate(DateTime.subtractDuration(now, REFUSALS_LAST))
  // A model is not asked about larger arguments. As JSON values, so that another order of members is no other call.
  const compared = (argumentsJson?.length ?? 0) > MAX_REVIEWED_ARGUMENTS ? null : argumentsJson
  const isSameCall = sql`
    CASE WHEN status <> 'approved' AND tool = ${tool} AND action_class = ${action_class} AND arguments_bytes <= ${MAX_CALL_BYTES}::int
      THEN arguments::jsonb IS NOT DISTINCT FROM ${compared}::jsonb
      ELSE false
    END
  `
  return factRows.first(sql`
    SELECT
      EXISTS (
        SELECT FROM governed_steps
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          AND step_id = ${step_id}
      ) AS is_saved,
      EXISTS (
        SELECT FROM people
        WHERE org_id = ${org_id}
          AND key_id = ${requested_by_id}
      ) AS is_persons,
      EXISTS (
        SELECT FROM agent_sessions
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          AND proposals_until > ${toDate(now)}
      ) OR EXISTS (
        SELECT FROM grants
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          AND ended_at IS NULL
          AND expires_at > ${toDate(now)}
          AND tool = ${tool}
          AND action_class = ${action_class}
      ) AS may_have_advance,
      EXISTS (
        SELECT FROM (
          SELECT status, tool, action_class, arguments, arguments_bytes
          FROM approvals
          WHERE org_id = ${org_id}
            AND session_id = ${session_id}
          ORDER BY approval_id DESC
          LIMIT ${MAX_COMPARED_CALLS}
        ) AS newest
        WHERE ${isSameCall}
      ) OR EXISTS (
        SELECT FROM (
          SELECT status, tool, action_class, arguments, arguments_bytes
          FROM approvals
          WHERE org_id = ${org_id}
            AND decided_at > ${since}
          ORDER BY decided_at DESC
          LIMIT ${MAX_COMPARED_CALLS}
        ) AS closed
        WHERE ${isSameCall}
      ) OR (
        SELECT count(*)
        FROM reviewer_answers
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          AND tool = ${tool}
          AND answer IN ('reject', 'unsure')
          AND created_at > ${since}
      ) >= ${MAX_REFUSALS} AS is_repeated,
      EXISTS (
        SELECT FROM reviewers
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
      ) AS is_reviewers
  `)
}
