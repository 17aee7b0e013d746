import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { FeedbackNotPending, LimitReached, NotFound, SelfReview } from "../../../api/Problems.ts"
import type { ReviewManyRequest, ReviewRefusal, ReviewResult } from "../../../api/ReviewBatch.ts"
import { FeedbackId, type OrgId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { FeedbackStatus } from "../../../domain/tasks/Feedback.ts"
import { inTurns, type LoopTurns } from "../../admission/LoopTurns.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** Reviews of one request at a time. Each holds a connection of its organization, and one correction's input in memory. */
const MAX_TRANSACTIONS = 4

type Refused = NotFound | SelfReview | FeedbackNotPending | LimitReached

/** The parts of a review. */
export interface ReviewManyDeps {
  readonly sql: SqlClient.SqlClient
  readonly turns: LoopTurns
  /** Reviews one correction, in a transaction of its own. */
  readonly reviewOne: (id: FeedbackId) => Effect.Effect<{ readonly status: FeedbackStatus }, Refused>
}

/** Gives each of these corrections the same verdict, independently of the others. Returns a result for each, in their order. */
export const reviewMany = Effect.fnUntraced(function* (
  { reviewOne, sql, turns }: ReviewManyDeps,
  { org_id }: Principal,
  ids: ReviewManyRequest["feedback_ids"]
): Effect.fn.Return<ReadonlyArray<ReviewResult>> {
  const turn = turns.take(org_id)
  const results = yield* Effect.forEach(
    ids,
    (feedback_id) =>
      Effect.andThen(turn, reviewOne(feedback_id)).pipe(
        Effect.map(({ status }): ReviewResult => ({ feedback_id, status, problem: null })),
        Effect.catch((problem) =>
          Effect.succeed<ReviewResult>({ feedback_id, status: null, problem: toRefusal(problem) })
        ),
        // Each may have an input of some MiB.
        inTurns(turn)
      ),
    { concurrency: MAX_TRANSACTIONS }
  )
  const refused = results.flatMap(({ feedback_id, problem }) => (problem === null ? [] : [feedback_id]))
  if (refused.length === 0) return results
  const statuses = yield* readStatuses(sql, org_id, refused)
  return results.map((result) =>
    result.problem === null || result.problem.code === "NOT_FOUND"
      ? result
      : { ...result, status: statuses.get(result.feedback_id) ?? null }
  )
})

const statusRows = rowsOf(Schema.Struct({ feedback_id: FeedbackId, status: FeedbackStatus }))

const readStatuses = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<FeedbackId>) =>
  statusRows
    .all(
      sql`
        SELECT feedback_id, status
        FROM feedback
        WHERE org_id = ${org_id}
          AND feedback_id = ANY(${textArray(ids)})
      `
    )
    .pipe(
      Effect.map((rows) => new Map(rows.map(({ feedback_id, status }) => [feedback_id, status]))),
      Effect.orDie
    )

/** A problem as a member of a response. */
const toRefusal = ({ code, status, title, type, detail = title }: Refused): ReviewRefusal => ({
  type,
  status,
  code,
  title,
  detail
})
