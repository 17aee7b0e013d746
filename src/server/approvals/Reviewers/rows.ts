import { type Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ReviewerChange } from "../../../api/Reviewers.ts"
import {
  type Reviewer,
  ReviewerAmount,
  ReviewerState,
  ReviewerStopReason,
  ReviewerTools
} from "../../../domain/approvals/Reviewer.ts"
import { RECENT_APPROVALS } from "../../../domain/approvals/Reviewer/reviewerStanding.ts"
import { type Actor, actorOf } from "../../../domain/identity/Principal.ts"
import { DatasetId, KeyId, OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { claimFirst, MAX_CANDIDATES } from "../../store/claimFirst.ts"
import { currentTime, timeFromNow } from "../../store/currentTime.ts"
import { countOf, hasRow, rowsOf } from "../../store/rows.ts"
import type { StoreClock } from "../../store/StoreClock.ts"

/** A row of `reviewers`, with the name and the live release of its task. */
const ReviewerRow = Schema.Struct({
  org_id: OrgId,
  task_id: TaskId,
  name: Schema.String,
  release_id: ReleaseId,
  /** The dataset version of the release. */
  live_dataset_id: Schema.NullOr(DatasetId),
  /** The newest version of the task's dataset. */
  newest_dataset_id: Schema.NullOr(DatasetId),
  state: ReviewerState,
  generation: Schema.Int,
  stopped_at: Schema.NullOr(TimestampFromDate),
  stopped_reason: Schema.NullOr(ReviewerStopReason),
  stopped_by_id: Schema.NullOr(KeyId),
  stopped_by_name: Schema.NullOr(Schema.String),
  tools: ReviewerTools,
  amount: Schema.NullOr(ReviewerAmount),
  daily_calls: Schema.Int,
  daily_tokens: Schema.Finite,
  used_calls: Schema.Int,
  used_tokens: Schema.Finite,
  failures: Schema.Int,
  /** Since when decisions of the model are listed for review; null: it is not stopped. */
  review_since: Schema.NullOr(TimestampFromDate),
  last_approval_id: Schema.String,
  compared_at: TimestampFromDate,
  lease_epoch: Schema.Int,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String
})
export type ReviewerRow = typeof ReviewerRow.Type

const reviewerRows = rowsOf(ReviewerRow)

/** The statements' dependencies. */
export interface ReviewerStore {
  readonly sql: SqlClient.SqlClient
  readonly clock: StoreClock["Service"]
}

/** SQL of the current day, in UTC. */
const today = ({ clock, sql }: ReviewerStore) => sql`(${currentTime(sql, clock)} AT TIME ZONE 'UTC')::date`

const columns = (store: ReviewerStore) => store.sql`
  reviewers.org_id, reviewers.task_id, tasks.name, tasks.live_release_id AS release_id, (
    SELECT releases.dataset_id
    FROM releases
    WHERE releases.org_id = reviewers.org_id
      AND releases.release_id = tasks.live_release_id
  ) AS live_dataset_id,
  tasks.dataset_id AS newest_dataset_id, state, generation, stopped_at, stopped_reason,
  stopped_by_id, stopped_by_name, tools, amount, daily_calls, daily_tokens::float8 AS daily_tokens,
  CASE WHEN used_on = ${today(store)} THEN used_calls ELSE 0 END AS used_calls,
  CASE WHEN used_on = ${today(store)} THEN used_tokens ELSE 0 END::float8 AS used_tokens,
  failures, review_since, last_approval_id, compared_at, lease_epoch, reviewers.created_at, reviewers.created_by_id, reviewers.created_by_name
`

/** Converts a row to the API's reviewer. */
export const toReviewer = (row: ReviewerRow): Reviewer => ({
  task_id: row.task_id,
  name: row.name,
  release_id: row.release_id,
  state: row.state,
  stopped_at: row.stopped_at,
  stopped_reason: row.stopped_reason,
  stopped_by: actorOf(row.stopped_by_id, row.stopped_by_name),
  tools: row.tools,
  amount: row.amount,
  daily_calls: row.daily_calls,
  daily_tokens: row.daily_tokens,
  used: {
    calls: row.used_calls,
    tokens: row.used_tokens,
    used_up: row.used_calls >= row.daily_calls || row.used_tokens >= row.daily_tokens
  },
  failures: row.failures,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name }
})

/** Lists the reviewer models of an organization, oldest first. They are at most `MAX_REVIEWERS`. */
export const listReviewers = (store: ReviewerStore, org_id: OrgId) =>
  reviewerRows.all(store.sql`
    SELECT ${columns(store)}
    FROM reviewers
      JOIN tasks USING (org_id, task_id)
    WHERE reviewers.org_id = ${org_id}
    ORDER BY reviewers.task_id
  `)

/** Finds one reviewer model; undefined if there is none. */
export const findReviewer = (store: ReviewerStore, org_id: OrgId, task_id: TaskId) =>
  reviewerRows.first(store.sql`
    SELECT ${columns(store)}
    FROM reviewers
      JOIN tasks USING (org_id, task_id)
    WHERE reviewers.org_id = ${org_id}
      AND reviewers.task_id = ${task_id}
  `)

/** Counts the reviewer models of an organization. */
export const countReviewers = ({ sql }: ReviewerStore, org_id: OrgId) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM reviewers
    WHERE org_id = ${org_id}
  `)

/** A reviewer model to insert. */
export type NewReviewerRow = Pick<
  ReviewerRow,
  | "org_id"
  | "task_id"
  | "tools"
  | "amount"
  | "daily_calls"
  | "daily_tokens"
  | "last_approval_id"
  | "created_by_id"
  | "created_by_name"
>

/** Inserts a reviewer model, which is asked about approvals after `last_approval_id`. */
export const insertReviewer = ({ clock, sql }: ReviewerStore, row: NewReviewerRow) => sql`
  INSERT INTO reviewers (
    org_id, task_id, tools, amount, daily_calls, daily_tokens, last_approval_id, compared_at, created_at, created_by_id, created_by_name
  )
  VALUES (
    ${row.org_id}, ${row.task_id}, ${JSON.stringify(row.tools)}, ${row.amount === null ? null : JSON.stringify(row.amount)},
    ${row.daily_calls}, ${row.daily_tokens}, ${row.last_approval_id}, ${currentTime(sql, clock)}, ${currentTime(sql, clock)},
    ${row.created_by_id}, ${row.created_by_name}
  )
`

/** Changes the tools and limits that a change names. Sets no others: a concurrent change of them stays. */
export const updateReviewer = (
  { sql }: ReviewerStore,
  org_id: OrgId,
  task_id: TaskId,
  { daily_calls, daily_tokens, tools }: ReviewerChange
) => sql`
  UPDATE reviewers
  SET
    tools = coalesce(${tools === undefined ? null : JSON.stringify(tools)}::text::json, tools),
    daily_calls = coalesce(${daily_calls ?? null}::int, daily_calls),
    daily_tokens = coalesce(${daily_tokens ?? null}::bigint, daily_tokens)
  WHERE org_id = ${org_id}
    AND task_id = ${task_id}
`

/**
 * When a person last agreed with an answer before the first disagreement among the newest approvals, so that decisions are reviewed that were
 * made while the quality may have fallen already. Without a disagreement: when a person last agreed.
 */
const reviewedUntil = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) => sql`
  WITH newest AS MATERIALIZED (
    SELECT answer = verdict AS agreed, created_at
    FROM reviewer_answers
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND counted
      AND answer = 'approve'
    ORDER BY answer_id DESC
    LIMIT ${RECENT_APPROVALS}
  )
  SELECT max(created_at)
  FROM newest
  WHERE agreed
    AND created_at < coalesce((SELECT min(created_at) FROM newest WHERE NOT agreed), 'infinity')
`

/** Stops a reviewer model that is not stopped. Returns whether it was changed. */
export const markStopped = (
  { clock, sql }: ReviewerStore,
  org_id: OrgId,
  task_id: TaskId,
  reason: ReviewerStopReason,
  by: Actor | null
) =>
  hasRow(sql`
    UPDATE reviewers
    SET
      state = 'stopped', generation = generation + 1, stopped_at = ${currentTime(sql, clock)}, stopped_reason = ${reason},
      stopped_by_id = ${by?.id ?? null}, stopped_by_name = ${by?.name ?? null},
      review_since = coalesce((${reviewedUntil(sql, org_id, task_id)}), restored_at, created_at)
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND state = 'watching'
    RETURNING 1 AS stopped
  `)

/** Lets a stopped reviewer model decide again. Returns whether it was changed. */
export const markRestored = ({ clock, sql }: ReviewerStore, org_id: OrgId, task_id: TaskId) =>
  hasRow(sql`
    UPDATE reviewers
    SET
      state = 'watching', generation = generation + 1, failures = 0, stopped_at = NULL, stopped_reason = NULL,
      stopped_by_id = NULL, stopped_by_name = NULL, restored_at = ${currentTime(sql, clock)}, review_since = NULL
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND state = 'stopped'
    RETURNING 1 AS restored
  `)

/**
 * Takes one call from the limits of the day, before it is made, so that concurrent requests of all replicas cannot exceed them. Returns
 * whether there was one.
 */
export const takeCall = ({ clock, sql }: ReviewerStore, org_id: OrgId, task_id: TaskId) =>
  Effect.flatMap(clock.now, (now) => {
    // The time as a value: a cluster refuses an update with a CASE that reads the clock.
    const day = sql`(${toDate(now)}::timestamptz AT TIME ZONE 'UTC')::date`
    return hasRow(sql`
      UPDATE reviewers
      SET
        used_on = ${day},
        used_calls = CASE WHEN used_on = ${day} THEN used_calls ELSE 0 END + 1,
        used_tokens = CASE WHEN used_on = ${day} THEN used_tokens ELSE 0 END
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND CASE WHEN used_on = ${day} THEN used_calls ELSE 0 END < daily_calls
        AND CASE WHEN used_on = ${day} THEN used_tokens ELSE 0 END < daily_tokens
      RETURNING 1 AS taken
    `)
  })

const failureRows = rowsOf(Schema.Struct({ failures: Schema.Int }))

/** Adds the further calls and the tokens of a request, and whether it got an answer. Returns the failures in a row. */
export const settleCall = (
  { sql }: ReviewerStore,
  org_id: OrgId,
  task_id: TaskId,
  used: { readonly calls: number; readonly tokens: number; readonly hasAnswer: boolean | null }
) =>
  Effect.map(
    failureRows.first(sql`
      UPDATE reviewers
      SET
        used_calls = used_calls + ${Math.max(0, used.calls - 1)}::int,
        used_tokens = used_tokens + ${used.tokens}::bigint,
        failures = failures * ${used.hasAnswer === true ? 0 : 1}::int + ${used.hasAnswer === false ? 1 : 0}::int
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
      RETURNING failures
    `),
    (row) => row?.failures ?? 0
  )

const leasedRows = rowsOf(Schema.Struct({ org_id: OrgId, task_id: TaskId, lease_epoch: Schema.Int }))
export type ReviewerLease = Pick<ReviewerRow, "org_id" | "task_id" | "lease_epoch">

/** Whether a reviewer model has work: new approvals, or decisions to compare its answers with. */
const isClaimable = ({ clock, sql }: ReviewerStore) => sql`
  (lease_until IS NULL OR lease_until <= ${currentTime(sql, clock)})
  AND (
    EXISTS (
      SELECT FROM approvals
      WHERE approvals.org_id = reviewers.org_id
        AND approvals.approval_id > reviewers.last_approval_id
    )
    OR EXISTS (
      SELECT FROM approvals
      WHERE approvals.org_id = reviewers.org_id
        AND approvals.decided_at > reviewers.compared_at
    )
  )
`

/** Counts the reviewer models that have work, up to `limit`. Names no organization, because it is for a worker of all. */
export const countClaimable = (store: ReviewerStore, limit: number) =>
  countOf(store.sql`
    SELECT count(*)::int AS count
    FROM (
      SELECT 1
      FROM reviewers
      WHERE ${isClaimable(store)}
      LIMIT ${limit}
    ) AS claimable
  `)

/** Claims the reviewer model with work whose lease ended longest ago. Raises the epoch, which fences the replica that had it. */
export const claimReviewer = (store: ReviewerStore, lease: Duration.Duration) => {
  const { clock, sql } = store
  return claimFirst(
    leasedRows.all(sql`
      SELECT org_id, task_id, lease_epoch
      FROM reviewers
      WHERE ${isClaimable(store)}
      ORDER BY lease_until NULLS FIRST
      LIMIT ${MAX_CANDIDATES}
    `),
    ({ org_id, task_id }) =>
      leasedRows.first(sql`
        UPDATE reviewers
        SET lease_epoch = lease_epoch + 1, lease_until = ${timeFromNow(store.sql, store.clock, lease)}
        WHERE org_id = ${org_id}
          AND task_id = (
            SELECT task_id
            FROM reviewers
            WHERE org_id = ${org_id}
              AND task_id = ${task_id}
              AND (lease_until IS NULL OR lease_until <= ${currentTime(sql, clock)})
            FOR NO KEY UPDATE SKIP LOCKED
          )
        RETURNING org_id, task_id, lease_epoch
      `)
  )
}

/** Extends the lease, if this epoch still has it. Returns whether it does. */
export const renewLease = (
  store: ReviewerStore,
  { lease_epoch, org_id, task_id }: ReviewerLease,
  lease: Duration.Duration
) =>
  hasRow(store.sql`
    UPDATE reviewers
    SET lease_until = ${timeFromNow(store.sql, store.clock, lease)}
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND lease_epoch = ${lease_epoch}
    RETURNING 1 AS renewed
  `)

/** Lets another replica claim the reviewer model after a pause, if this epoch still has it. */
export const releaseLease = (
  store: ReviewerStore,
  { lease_epoch, org_id, task_id }: ReviewerLease,
  pause: Duration.Duration
) => store.sql`
  UPDATE reviewers
  SET lease_until = ${timeFromNow(store.sql, store.clock, pause)}
  WHERE org_id = ${org_id}
    AND task_id = ${task_id}
    AND lease_epoch = ${lease_epoch}
`

/** How far the worker has come with a reviewer model. */
export interface ReviewerProgress {
  readonly last_approval_id: string
  readonly compared_at: Timestamp
}

/** Stores how far the worker has come, if this epoch still has the lease. */
export const saveProgress = (
  { sql }: ReviewerStore,
  { lease_epoch, org_id, task_id }: ReviewerLease,
  { compared_at, last_approval_id }: ReviewerProgress
) => sql`
  UPDATE reviewers
  SET last_approval_id = greatest(last_approval_id, ${last_approval_id}), compared_at = greatest(compared_at, ${toDate(compared_at)}::timestamptz)
  WHERE org_id = ${org_id}
    AND task_id = ${task_id}
    AND lease_epoch = ${lease_epoch}
`
