import { Effect, type Schema } from "effect"
import type { feedbackScores } from "../../../api/Feedback.ts"
import { InvalidRequest } from "../../../api/Problems.ts"
import { type KnownValues, redactText } from "../../../domain/redaction/Redaction.ts"
import { type FeedbackRecord, nearestScore } from "../../../domain/tasks/Feedback.ts"
import { redactionWarning } from "../redactJson.ts"

/** The score and comment on an answer, as they are sent. */
export type SentScore = Schema.Struct.Type<typeof feedbackScores>

/** The score and comment on an answer, as they are stored. */
export type ScoreAndComment = Pick<FeedbackRecord, "score" | "score_value" | "score_label" | "comment"> & {
  /** Whether the comment had a secret. */
  readonly isRedacted: boolean
}

/** The score and its value; one of them is required. */
export const scoreOf = ({
  score,
  score_value = null
}: SentScore): Effect.Effect<Pick<ScoreAndComment, "score" | "score_value">, InvalidRequest> => {
  // JSON has a negative zero, which no reader expects.
  const value = score_value === null ? null : score_value + 0
  if (score !== undefined) return Effect.succeed({ score, score_value: value })
  return value === null ? missingScore : Effect.succeed({ score: nearestScore(value), score_value: value })
}

const missingScore = Effect.fail(
  new InvalidRequest({
    detail: "Send `score`, `score_value` or both.",
    errors: [{ pointer: "#/score", detail: "Is missing" }]
  })
)

/** Redacts a comment. An empty one is none. */
export const redactComment = (
  comment: string | null,
  known: Effect.Effect<KnownValues>
): Effect.Effect<Pick<ScoreAndComment, "comment" | "isRedacted">> =>
  comment === null || comment === ""
    ? Effect.succeed({ comment: null, isRedacted: false })
    : Effect.map(known, (values) => {
        const redacted = redactText(comment, values)
        return { comment: redacted, isRedacted: redacted !== comment }
      })

/** The warning about redacted fields: of the correction, and the comment. */
export const warningOf = (
  correction: string | undefined,
  isCommentRedacted: boolean
): { readonly redaction_warning?: string } => {
  if (!isCommentRedacted) return correction === undefined ? {} : { redaction_warning: correction }
  return {
    redaction_warning:
      correction === undefined
        ? redactionWarning({ count: 1, pointers: ["#/comment"] })
        : `${correction} and from #/comment`
  }
}
