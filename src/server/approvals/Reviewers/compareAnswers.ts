import { DateTime, Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ApprovalOutcome, DecisionSource } from "../../../domain/approvals/Approval.ts"
import { selectRead } from "../../../domain/approvals/readingTime.ts"
import type { ReviewerVerdict } from "../../../domain/approvals/Reviewer.ts"
import { ApprovalId, KeyId, type OrgId, ReviewerAnswerId, type TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { hasRow, rowsOf } from "../../store/rows.ts"
import { countedAnswerColumns, reviewerCounts } from "../reviewerCounts.ts"

/** Answers that one call compares. */
export const COMPARED_ANSWERS = 200

/** Decisions that are read to find out whether people can have read the requests. */
const MAX_READ_DECISIONS = 20_000

/** A person's reading time is counted from one hour before the hour of a decision. */
const HOUR = Duration.hours(1)

/** An answer without a verdict whose approval is closed. */
const ClosedAnswer = Schema.Struct({
  answer_id: ReviewerAnswerId,
  approval_id: ApprovalId,
  requested_at: TimestampFromDate,
  requested_by_id: KeyId,
  outcome: ApprovalOutcome,
  decision_source: DecisionSource,
  decided_at: TimestampFromDate,
  decided_by_id: Schema.NullOr(KeyId),
  /** Whether the step was requested after the release that answered, and its examples, were made: none of them can be this decision. */
  is_of_release: Schema.Boolean
})
type ClosedAnswer = typeof ClosedAnswer.Type

const closedRows = rowsOf(ClosedAnswer)

const decisionRows = rowsOf(
  Schema.Struct({
    approval_id: ApprovalId,
    requested_at: TimestampFromDate,
    decided_at: TimestampFromDate,
    decided_by_id: KeyId,
    arguments_bytes: Schema.Int
  })
)

const hourOf = (at: Timestamp): Timestamp => DateTime.startOf(at, "hour")

/** Finds the decisions of these that a person can have read, beside the others that the person made about that time. */
const findRead = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  closed: ReadonlyArray<ClosedAnswer>
) {
  const people = closed.flatMap(({ decided_by_id }) => (decided_by_id === null ? [] : [decided_by_id]))
  const first = closed[0]
  const last = closed.at(-1)
  const read = new Set<ApprovalId>()
  if (first === undefined || last === undefined || people.length === 0) return read
  const decisions = yield* decisionRows.all(sql`
    SELECT approval_id, requested_at, decided_at, decided_by_id, arguments_bytes
    FROM approvals
    WHERE org_id = ${org_id}
      AND decided_at >= ${toDate(DateTime.subtractDuration(hourOf(first.decided_at), HOUR))}
      AND decided_at <= ${toDate(last.decided_at)}
      AND decision_source = 'human'
      AND decided_by_id = ANY(${textArray([...new Set(people)])})
    ORDER BY decided_at, approval_id
    LIMIT ${MAX_READ_DECISIONS}
  `)
  const timed = decisions.map((one) => ({
    approval_id: one.approval_id,
    requested_at: one.requested_at.epochMilliseconds,
    decided_at: one.decided_at.epochMilliseconds,
    decided_by: one.decided_by_id,
    characters: one.arguments_bytes
  }))
  for (const hour of new Set(closed.map(({ decided_at }) => hourOf(decided_at).epochMilliseconds))) {
    const since = hour - Duration.toMillis(HOUR)
    const until = hour + Duration.toMillis(HOUR)
    const about = timed.filter(({ decided_at }) => decided_at >= since && decided_at < until)
    for (const one of selectRead(about)) if (one.decided_at >= hour) read.add(one.approval_id)
  }
  return read
})

const verdictOf = (answer: ClosedAnswer, read: ReadonlySet<ApprovalId>): ReviewerVerdict => {
  const { approval_id, decided_by_id, decision_source, is_of_release, outcome, requested_by_id } = answer
  const counts =
    decision_source === "human" && decided_by_id !== requested_by_id && is_of_release && read.has(approval_id)
  if (!counts) return "none"
  return outcome === "allow" ? "approve" : "reject"
}

const openAnswers = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) => sql`
  FROM reviewer_answers AS answer
    -- Looked up for each open answer: a join would begin at the decisions, all of which it would read.
    CROSS JOIN LATERAL (
      SELECT *
      FROM approvals
      WHERE approvals.org_id = ${org_id}
        AND approvals.approval_id = answer.approval_id
        AND approvals.decided_at IS NOT NULL
      OFFSET 0
    ) AS approvals
    JOIN releases ON releases.org_id = ${org_id} AND releases.release_id = answer.release_id
    LEFT JOIN datasets ON datasets.org_id = ${org_id} AND datasets.dataset_id = answer.dataset_id
  WHERE answer.org_id = ${org_id}
    AND answer.task_id = ${task_id}
    AND verdict IS NULL
    AND answer.approval_id IS NOT NULL
`

/** Whether answers of a reviewer are to be compared with decisions. */
export const hasOpenAnswers = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  hasRow(sql`SELECT 1 AS found ${openAnswers(sql, org_id, task_id)} LIMIT 1`)

/**
 * Compares answers of a reviewer with the decisions that were made since, oldest decision first, and counts decisions of people. Returns how
 * many were compared; 0: no other is left. Call it in a transaction.
 */
export const compareAnswers = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId
) {
  const found = yield* closedRows.all(sql`
    SELECT
      answer_id, answer.approval_id, approvals.requested_at, requested_by_id, outcome, decision_source, approvals.decided_at, decided_by_id,
      approvals.requested_at >= greatest(releases.created_at, datasets.created_at) AS is_of_release
    ${openAnswers(sql, org_id, task_id)}
    ORDER BY approvals.decided_at, answer_id
    LIMIT ${COMPARED_ANSWERS}
  `)
  const first = found[0]
  if (first === undefined) return 0
  const end = DateTime.addDuration(first.decided_at, HOUR)
  const closed = found.filter(({ decided_at }) => DateTime.isLessThanOrEqualTo(decided_at, end))
  const read = yield* findRead(sql, org_id, closed)
  yield* sql`
    WITH closed AS (
      SELECT *
      FROM unnest(
        ${textArray(closed.map(({ answer_id }) => answer_id))},
        ${textArray(closed.map((answer) => verdictOf(answer, read)))},
        ${timestamptzArray(closed.map(({ decided_at }) => decided_at))}
      ) AS closed (answer_id, verdict, decided_at)
    ), compared AS (
      UPDATE reviewer_answers AS answer
      SET
        verdict = closed.verdict, decided_at = closed.decided_at,
        counted = answer.answer IS NOT NULL AND closed.verdict <> 'none'
      FROM closed
      WHERE answer.org_id = ${org_id}
        AND answer.task_id = ${task_id}
        AND answer.answer_id = closed.answer_id
        AND answer.verdict IS NULL
      RETURNING ${sql.literal(countedAnswerColumns("answer"))}
    ), ${reviewerCounts(sql, "compared")}
    SELECT count(*) AS compared
    FROM compared
  `
  return closed.length
})
