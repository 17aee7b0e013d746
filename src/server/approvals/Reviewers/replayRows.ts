import { createHash } from "node:crypto"
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { makeReviewerBacktest } from "../../../domain/approvals/Reviewer/backtestReviewer.ts"
import type { ReviewerTerms } from "../../../domain/approvals/Reviewer/reviewerStanding.ts"
import { ReviewerDecision } from "../../../domain/approvals/Reviewer.ts"
import { ReviewerAnswerId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"
import { rowsOf } from "../../store/rows.ts"
import type { ReviewerRow } from "./rows.ts"

/** Answers that one statement reads, and that a backtest reads at most. */
const PAGE_ANSWERS = 1_000
const MAX_ANSWERS = 50_000

/** Answers that are replayed in one turn at the event loop. */
const SLICE = 25

const replayRows = rowsOf(
  Schema.Struct({
    answer_id: ReviewerAnswerId,
    tool: Schema.String,
    band: Schema.Int,
    answer: ReviewerDecision,
    verdict: Schema.Literals(["approve", "reject"]),
    decided_at: TimestampFromDate
  })
)

/** A number from 0 to 1 that is always the same for an answer. */
const drawOf = (id: ReviewerAnswerId): number =>
  createHash("sha256").update(id).digest().readUInt32BE(0) / 2 ** 32

/** Replays the counted answers of the live release since a time, in the order of people's decisions. */
export const replayAnswers = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { amount, live_dataset_id, org_id, release_id, task_id }: ReviewerRow,
  {
    sample,
    since,
    terms
  }: { readonly since: Timestamp; readonly terms: ReviewerTerms; readonly sample: number }
) {
  const replay = makeReviewerBacktest(terms, sample)
  const totals = {
    compared: 0,
    decided: 0,
    agreed: 0,
    false_approvals: 0,
    false_rejections: 0,
    sampled: 0,
    unsure: 0,
    not_earned: 0
  }
  let first_decided_at: Timestamp | null = null
  let after: { readonly decided_at: Timestamp; readonly answer_id: string } = {
    decided_at: since,
    answer_id: ""
  }
  for (;;) {
    const page = yield* replayRows.all(sql`
      SELECT answer_id, tool, band, answer, verdict, decided_at
      FROM reviewer_answers
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND release_id = ${release_id}
        AND dataset_id IS NOT DISTINCT FROM ${live_dataset_id}
        AND counted
        AND (decided_at, answer_id) > (${toDate(after.decided_at)}::timestamptz, ${after.answer_id})
      ORDER BY decided_at, answer_id
      LIMIT ${PAGE_ANSWERS}
    `)
    for (const [index, one] of page.entries()) {
      if (index % SLICE === 0) yield* nextTurn
      const { answer, band, decided_at, tool, verdict } = one
      const fate = replay({
        group: `${band} ${tool}`,
        answer,
        verdict,
        isDecidable: band >= 0 || amount === null,
        draw: drawOf(one.answer_id)
      })
      totals.compared++
      totals[fate]++
      if (fate !== "decided") continue
      first_decided_at ??= decided_at
      if (answer === verdict) totals.agreed++
      else totals[answer === "approve" ? "false_approvals" : "false_rejections"]++
    }
    const last = page.at(-1)
    const truncated = totals.compared >= MAX_ANSWERS
    if (last === undefined || page.length < PAGE_ANSWERS || truncated)
      return { since, ...totals, first_decided_at, truncated }
    after = last
  }
})
