import { DateTime, Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { PageRequest } from "../../../api/Pagination.ts"
import type { ReviewerAnswerFilter } from "../../../api/Reviewers.ts"
import {
  type ReviewerAmount,
  type ReviewerAnswer,
  ReviewerAnswerMode,
  ReviewerDecision,
  ReviewerVerdict
} from "../../../domain/approvals/Reviewer.ts"
import { bandAt } from "../../../domain/approvals/Reviewer/amountBand.ts"
import {
  ApprovalId,
  type DatasetId,
  KeyId,
  type OrgId,
  ReleaseId,
  ReviewerAnswerId,
  SessionId,
  StepId,
  MAX_CLOCK_SKEW,
  TaskId,
  uuidTimePrefix
} from "../../../domain/Ids.ts"
import { actorOf } from "../../../domain/identity/Principal.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { rowBytes } from "../../identity/StoredUsage.ts"
import { pageWithinBytes, toPageWithinBytes } from "../../store/Pagination.ts"
import { hasRow, rowsOf } from "../../store/rows.ts"
import type { ReviewerRow } from "./rows.ts"

/** An answer to store. */
export interface NewAnswer {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly release_id: ReleaseId
  readonly dataset_id: DatasetId | null
  readonly session_id: SessionId
  readonly step_id: StepId
  /** Null: the answer decided, and people were not asked. */
  readonly approval_id: ApprovalId | null
  readonly tool: string
  readonly band: number
  readonly mode: ReviewerAnswerMode
  /** Null: there is no answer, and `reason` says why. */
  readonly decision: ReviewerDecision | null
  readonly reason: string
  readonly calls: number
  readonly tokens: number
  readonly requested_at: Timestamp
  readonly created_at: Timestamp
}

/** The size of an answer for the organization's limit of stored bytes. */
export const answerBytes = (reason: string): number => rowBytes.reviewer_answer + Buffer.byteLength(reason)

/**
 * Inserts an answer, unless the step has one of this reviewer already, or the session or the reviewer is being deleted. Returns whether it
 * was inserted.
 */
export const insertAnswer = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, answer: NewAnswer) {
  const answer_id = yield* ReviewerAnswerId.generateAt(answer.created_at)
  return yield* hasRow(sql`
    INSERT INTO reviewer_answers (
      org_id, answer_id, task_id, release_id, dataset_id, session_id, step_id, approval_id, tool, band, mode, answer, reason, calls,
      tokens, requested_at, created_at
    )
    SELECT
      ${answer.org_id}, ${answer_id}, ${answer.task_id}, ${answer.release_id}, ${answer.dataset_id}, ${answer.session_id},
      ${answer.step_id}, ${answer.approval_id}, ${answer.tool}, ${answer.band}::smallint, ${answer.mode}, ${answer.decision}, ${answer.reason},
      ${answer.calls}::int, ${answer.tokens}::bigint, ${toDate(answer.requested_at)}::timestamptz, ${toDate(answer.created_at)}::timestamptz
    FROM (
      SELECT
      FROM agent_sessions
      WHERE org_id = ${answer.org_id}
        AND session_id = ${answer.session_id}
      FOR KEY SHARE SKIP LOCKED
    ) AS session
      CROSS JOIN (
        SELECT
        FROM reviewers
        WHERE org_id = ${answer.org_id}
          AND task_id = ${answer.task_id}
        FOR KEY SHARE SKIP LOCKED
      ) AS reviewer
    ON CONFLICT (org_id, session_id, step_id, task_id) DO NOTHING
    RETURNING 1 AS inserted
  `)
})

const AnswerRow = Schema.Struct({
  answer_id: ReviewerAnswerId,
  task_id: TaskId,
  release_id: ReleaseId,
  session_id: SessionId,
  step_id: StepId,
  approval_id: Schema.NullOr(ApprovalId),
  tool: Schema.String,
  band: Schema.Int,
  mode: ReviewerAnswerMode,
  answer: Schema.NullOr(ReviewerDecision),
  reason: Schema.String,
  verdict: Schema.NullOr(ReviewerVerdict),
  tokens: Schema.Finite,
  created_at: TimestampFromDate,
  decided_at: Schema.NullOr(TimestampFromDate),
  wrong_at: Schema.NullOr(TimestampFromDate),
  wrong_by_id: Schema.NullOr(KeyId),
  wrong_by_name: Schema.NullOr(Schema.String)
})

const answerColumns = Object.keys(AnswerRow.fields)
  .map((name) => (name === "tokens" ? "tokens::float8 AS tokens" : name))
  .join(", ")

const toAnswer = (row: typeof AnswerRow.Type, amount: ReviewerAmount | null): ReviewerAnswer => ({
  id: row.answer_id,
  task_id: row.task_id,
  release_id: row.release_id,
  session_id: row.session_id,
  step_id: row.step_id,
  approval_id: row.approval_id,
  tool: row.tool,
  band: bandAt(amount, row.band),
  mode: row.mode,
  decision: row.answer,
  reason: row.reason,
  verdict: row.verdict,
  tokens: row.tokens,
  created_at: row.created_at,
  decided_at: row.decided_at,
  wrong_at: row.wrong_at,
  wrong_by: actorOf(row.wrong_by_id, row.wrong_by_name)
})

const answerRows = rowsOf(AnswerRow)

const listedRows = rowsOf(Schema.Struct({ ...AnswerRow.fields, found: Schema.Int }))

/** The answers that may be shown: people have decided, or were not asked. */
const isShown = "(verdict IS NOT NULL OR approval_id IS NULL)"

/** Finds an answer that may be shown. */
export const findReviewerAnswer = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  answer_id: ReviewerAnswerId,
  amount: ReviewerAmount | null
) =>
  Effect.map(
    answerRows.first(sql`
      SELECT ${sql.literal(answerColumns)}
      FROM reviewer_answers
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND answer_id = ${answer_id}
        AND ${sql.literal(isShown)}
    `),
    (row) => (row === undefined ? undefined : toAnswer(row, amount))
  )

/** Lists a page of answers that may be shown, newest first. */
export const listAnswers = (
  sql: SqlClient.SqlClient,
  {
    amount,
    org_id,
    review_since,
    task_id
  }: Pick<ReviewerRow, "amount" | "org_id" | "review_since" | "task_id">,
  request: PageRequest<ReviewerAnswerId> & ReviewerAnswerFilter
) => {
  if (request.to_review !== undefined && review_since === null)
    return Effect.succeed({ items: [], next_cursor: null })
  const conditions: Array<Statement.Fragment> = [
    sql`org_id = ${org_id}`,
    sql`task_id = ${task_id}`,
    sql.literal(isShown),
    ...(request.disagreed === undefined
      ? []
      : [sql.literal("counted AND answer <> 'unsure' AND answer <> verdict")]),
    ...(request.to_review === undefined || review_since === null
      ? []
      : [
          sql`mode = 'decided' AND wrong_at IS NULL AND created_at >= ${toDate(review_since)}`,
          // Ids begin with their time, so that older answers are not read.
          sql`answer_id >= ${`rva_${uuidTimePrefix(DateTime.subtractDuration(review_since, MAX_CLOCK_SKEW))}`}`
        ]),
    ...(request.approval_id === undefined ? [] : [sql`approval_id = ${request.approval_id}`])
  ]
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "reviewer_answers",
    id: "answer_id",
    bytes: "octet_length(reason) + 500",
    where: sql.and(conditions),
    request
  })
  return Effect.map(
    listedRows.all(sql`
      ${ctes}
      SELECT ${sql.literal(answerColumns)}, found
      FROM sized
        JOIN reviewer_answers USING (answer_id)
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND ${isOnPage}
      ORDER BY answer_id DESC
    `),
    (rows) =>
      toPageWithinBytes(
        rows,
        (row) => toAnswer(row, amount),
        (row) => row.answer_id
      )
  )
}

/** The parts of a reviewer's figures: its live release, and when that got its last part. */
export interface MeasuredRelease {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly release_id: ReleaseId
  /** The dataset version of the release; null: none yet. */
  readonly live_dataset_id: DatasetId | null
}

const countedRows = rowsOf(
  Schema.Struct({
    tool: Schema.String,
    band: Schema.Int,
    week: Schema.NullOr(Schema.String),
    answer: ReviewerDecision,
    verdict: ReviewerVerdict,
    answers: Schema.Finite
  })
)

const recentRows = rowsOf(
  Schema.Struct({ tool: Schema.String, band: Schema.Int, agreed: Schema.Int, disagreed: Schema.Int })
)

/** Pairs of a tool and a band whose figures are read at once. */
const MAX_GROUPS = 200

/** The figures to read: of one tool and band, or of the tools and bands with the most answers. */
export interface FigureRange {
  readonly group?: { readonly tool: string; readonly band: number }
  /** Answers of earlier weeks are summed, and have no week; null: so are all. */
  readonly weeksSince: DateTime.Utc | null
  /** How many of the newest approvals are counted apart. */
  readonly recent: number
}

/** Reads the counted answers of a release, and apart from them the newest approvals. */
export const readCounts = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { live_dataset_id, org_id, release_id, task_id }: MeasuredRelease,
  { group, recent, weeksSince }: FigureRange
) {
  const groups = sql`
    SELECT tool, band, sum(answers) AS total
    FROM reviewer_counts
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND release_id = ${release_id}
      AND dataset_id = ${live_dataset_id ?? ""}
      ${group === undefined ? sql.literal("") : sql`AND tool = ${group.tool} AND band = ${group.band}::int`}
    GROUP BY tool, band
    HAVING sum(answers) > 0
    ORDER BY total DESC, tool, band
    LIMIT ${MAX_GROUPS}
  `
  const counted = yield* countedRows.all(sql`
    WITH groups AS MATERIALIZED (${groups})
    SELECT
      tool, band, CASE WHEN week >= ${weeksSince === null ? null : toDate(weeksSince)}::timestamptz THEN week::text END AS week, answer, verdict,
      sum(answers)::float8 AS answers
    FROM groups
      JOIN reviewer_counts USING (tool, band)
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND release_id = ${release_id}
      AND dataset_id = ${live_dataset_id ?? ""}
    GROUP BY total, tool, band, 3, answer, verdict
    ORDER BY total DESC, tool, band, 3 DESC NULLS LAST
  `)
  const newest = yield* recentRows.all(sql`
    WITH groups AS MATERIALIZED (${groups})
    SELECT
      groups.tool, groups.band, count(*) FILTER (WHERE verdict = 'approve')::int AS agreed,
      count(*) FILTER (WHERE verdict = 'reject')::int AS disagreed
    FROM groups
      CROSS JOIN LATERAL (
        SELECT verdict
        FROM reviewer_answers
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND release_id = ${release_id}
          AND dataset_id IS NOT DISTINCT FROM ${live_dataset_id}
          AND reviewer_answers.tool = groups.tool
          AND reviewer_answers.band = groups.band
          AND counted
          AND answer = 'approve'
        ORDER BY decided_at DESC
        LIMIT ${recent}
      ) AS newest
    GROUP BY 1, 2
  `)
  return { counted, newest }
})
