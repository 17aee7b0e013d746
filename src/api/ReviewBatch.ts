/** One verdict on many corrections: `POST /v1/feedback/review`. */
import { Schema } from "effect"
import { documented } from "../domain/documented.ts"
import { documentedEnum } from "../domain/documentedEnum.ts"
import { FeedbackId } from "../domain/Ids.ts"
import { FeedbackStatus } from "../domain/tasks/Feedback.ts"
import { Comment } from "./Text.ts"

/** Corrections that one request reviews. */
export const MAX_REVIEWS = 100

/** Refuses a list that names a correction twice, and points to the second. */
const withoutDuplicates = Schema.makeFilter((ids: ReadonlyArray<string>) => {
  const second = ids.findIndex((id, index) => ids.indexOf(id) < index)
  return second < 0 || { path: [second], issue: "Expected each correction once" }
})

export const ReviewVerdict = documentedEnum({
  stage: "Accept the correction for the next promotion.",
  unstage: "Make a staged correction pending again.",
  reject: "Reject a pending or staged correction."
})
export type ReviewVerdict = typeof ReviewVerdict.Type

export const ReviewManyRequest = Schema.Struct({
  feedback_ids: Schema.Array(FeedbackId)
    .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_REVIEWS), withoutDuplicates)
    .check(documented({ uniqueItems: true }))
    .annotateKey({ description: `The corrections to review, 1 to ${MAX_REVIEWS}, each once.` }),
  verdict: ReviewVerdict.annotateKey({ description: "The verdict on each of them." }),
  note: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description:
      "With `reject`: a note to the submitter of each, at most 4,000 characters. Ignored otherwise. Default null."
  })
}).annotate({
  identifier: "ReviewManyRequest",
  description: "A reviewer's verdict on several corrections. It is attributed to the API key that sends it."
})
export type ReviewManyRequest = typeof ReviewManyRequest.Type

export const ReviewRefusal = Schema.Struct({
  type: Schema.String.annotateKey({ description: "URI of the problem's type." }),
  status: Schema.Int.annotateKey({ description: "The HTTP status with which a single review is refused." }),
  code: documentedEnum({
    NOT_FOUND: "The organization has no such feedback.",
    SELF_REVIEW: "The key that submitted the correction cannot stage it, nor can a key that it created.",
    FEEDBACK_NOT_PENDING: "The correction was reviewed before. `status` shows how.",
    LIMIT_REACHED: "The task has as many staged corrections as it can have."
  }).annotateKey({ description: "Stable code of the problem. Branch on this." }),
  title: Schema.String.annotateKey({ description: "The problem in a few words." }),
  detail: Schema.String.annotateKey({ description: "What happened, and what to do." })
}).annotate({
  identifier: "ReviewRefusal",
  description: "Why one correction of a request was not reviewed."
})
export type ReviewRefusal = typeof ReviewRefusal.Type

export const ReviewResult = Schema.Struct({
  feedback_id: FeedbackId.annotateKey({ description: "The ID of the feedback." }),
  status: Schema.NullOr(FeedbackStatus).annotateKey({
    description: "The feedback's status as it is now. Null if a problem says that it does not exist."
  }),
  problem: Schema.NullOr(ReviewRefusal).annotateKey({
    description:
      "Why the correction was not reviewed. Null if it was: by this request, or by an earlier one with the same verdict."
  })
}).annotate({ identifier: "ReviewResult", description: "What became of one correction of a request." })
export type ReviewResult = typeof ReviewResult.Type

export const ReviewResults = Schema.Struct({
  results: Schema.Array(ReviewResult).annotateKey({
    description: "One result for each correction, in the order of the request."
  })
}).annotate({ identifier: "ReviewResults", description: "The results of reviewing several corrections." })
