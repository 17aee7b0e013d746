import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { documented } from "../domain/documented.ts"
import { Dataset, JsonObject } from "../domain/tasks/Dataset.ts"
import { EndUser, EndUserId } from "../domain/tasks/EndUser.ts"
import {
  FeedbackDetail,
  FeedbackRecord,
  FeedbackStatus,
  MAX_SCORE_LABELS,
  Score,
  ScoreLabel,
  ScoreValue,
  StagedCorrection,
  SupersededCorrection
} from "../domain/tasks/Feedback.ts"
import {
  DEFAULT_TOKEN_SECONDS,
  DEFAULT_TOKEN_USES,
  MAX_RUN_USES,
  MAX_TOKEN_LABELS,
  MAX_TOKEN_SECONDS,
  MAX_TOKEN_USES,
  MIN_TOKEN_SECONDS
} from "../domain/tasks/FeedbackToken.ts"
import { FeedbackQuality, MAX_QUALITY_DAYS } from "../domain/tasks/FeedbackQuality.ts"
import { DatasetId, FeedbackId, TaskId, TraceId } from "../domain/Ids.ts"
import { timestamp } from "../domain/Time.ts"
import { Authentication, requires, requiresEither } from "./Authorization.ts"
import { BodyLimit, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  CorrectionNeedsSafeValue,
  DatasetBaseChanged,
  DatasetBusy,
  FeedbackChanged,
  FeedbackNotPending,
  FeedbackOfAnotherKey,
  InvalidCorrection,
  LimitReached,
  NotFound,
  NothingStaged,
  PayloadTooLarge,
  SelfReview
} from "./Problems.ts"
import { MAX_REVIEWS, ReviewManyRequest, ReviewResults } from "./ReviewBatch.ts"
import { Comment } from "./Text.ts"

/** The score and comment on an answer: the members that end users can send too. */
export const feedbackScores = {
  score: Schema.optionalKey(Score).annotateKey({
    description:
      "How good the answer was. Required without `score_value`. Default: the score nearest to `score_value`."
  }),
  score_value: Schema.optionalKey(Schema.NullOr(ScoreValue)).annotateKey({
    description:
      "How good the answer was, from -1 to 1, for ratings finer than `score`: of 5 stars, 5 are 1 and 4 are 0.5. Default null."
  }),
  score_label: Schema.optionalKey(Schema.NullOr(ScoreLabel)).annotateKey({
    description: `A category, such as \`too long\`: 1 to 64 visible characters. The feedback on a task's runs can have about ${MAX_SCORE_LABELS} different ones; another fails with 409 \`LIMIT_REACHED\`. Default null.`
  }),
  comment: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description:
      "A remark on the answer, at most 4,000 characters. Secrets are redacted from it. Default null."
  })
}

/**
 * Either score is required; `scoreOf` checks it. Not said as `anyOf`: generators of code make a union of it, without the other members.
 */
export const hasScore = documented<Schema.Struct.Type<typeof feedbackScores>>({
  if: { not: { required: ["score"], properties: { score: {} } } },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  then: { required: ["score_value"], properties: { score_value: { type: "number" } } }
})

export const NewFeedback = Schema.Struct({
  inference_log_id: Schema.String.annotateKey({
    description: "The `trace_id` of the run, also sent as `x-svc-trace-id`. An unknown one gets 404."
  }),
  ...feedbackScores,
  end_user_id: Schema.optionalKey(Schema.NullOr(EndUserId)).annotateKey({
    description:
      "Your ID of the end user who gave the feedback, 1 to 256 characters. It is not stored: the feedback has a pseudonym, `end_user`. Default null."
  }),
  correction: Schema.optionalKey(Schema.NullOr(JsonObject)).annotateKey({
    description: "The right answer, valid against the task's answer schema. Default null: a score alone."
  })
})
  .check(hasScore)
  .annotate({ identifier: "NewFeedback", description: "Feedback on the answer of one run." })
export type NewFeedback = typeof NewFeedback.Type

export const NewFeedbackToken = Schema.Struct({
  expires_in_seconds: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: MIN_TOKEN_SECONDS, maximum: MAX_TOKEN_SECONDS },
        { expected: `a whole number from ${MIN_TOKEN_SECONDS} to ${MAX_TOKEN_SECONDS}` }
      )
    )
  ).annotateKey({
    description: `How long the token can be used, ${MIN_TOKEN_SECONDS} to ${MAX_TOKEN_SECONDS} seconds, but not longer than the API key. Default ${DEFAULT_TOKEN_SECONDS}.`
  }),
  max_uses: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 1, maximum: MAX_TOKEN_USES },
        { expected: `a whole number from 1 to ${MAX_TOKEN_USES}` }
      )
    )
  ).annotateKey({
    description: `How many times feedback can be given with the token, 1 to ${MAX_TOKEN_USES}. Default ${DEFAULT_TOKEN_USES}.`
  }),
  score_labels: Schema.optionalKey(
    Schema.Array(ScoreLabel).check(Schema.isMaxLength(MAX_TOKEN_LABELS))
  ).annotateKey({
    description: `The labels that feedback with the token can have, at most ${MAX_TOKEN_LABELS}. Default none.`
  }),
  end_user_id: Schema.optionalKey(Schema.NullOr(EndUserId)).annotateKey({
    description:
      "Your ID of the end user who gets the token, 1 to 256 characters. It is not stored, and the token has the pseudonym only. Default null."
  })
}).annotate({ identifier: "NewFeedbackToken", description: "Options of a feedback token." })
export type NewFeedbackToken = typeof NewFeedbackToken.Type

export const CreatedFeedbackToken = Schema.Struct({
  token: Schema.String.annotateKey({
    description: "The token. It is not stored and cannot be read again; create another one instead."
  }),
  url: Schema.String.annotate({ format: "uri" }).annotateKey({
    description: "Where the browser sends the feedback."
  }),
  inference_log_id: TraceId.annotateKey({ description: "The `trace_id` of the run." }),
  expires_at: timestamp("When the token expires."),
  max_uses: Schema.Int.annotateKey({ description: "How many times feedback can be given with the token." }),
  end_user: Schema.NullOr(EndUser).annotateKey({
    description: "The pseudonym that the feedback will have. Null without `end_user_id`."
  })
}).annotate({
  identifier: "CreatedFeedbackToken",
  description: "A new feedback token, for the browser of one end user."
})
export type CreatedFeedbackToken = typeof CreatedFeedbackToken.Type

/** The filters of the list. */
export const feedbackFilter = {
  task_id: Schema.optionalKey(TaskId).annotateKey({ description: "Only feedback on runs of this task." }),
  status: Schema.optionalKey(FeedbackStatus).annotateKey({ description: "Only feedback of this status." }),
  score: Schema.optionalKey(Score).annotateKey({ description: "Only feedback with this score." }),
  inference_log_id: Schema.optionalKey(TraceId).annotateKey({
    description: "Only feedback on the run with this `trace_id`."
  }),
  score_label: Schema.optionalKey(ScoreLabel).annotateKey({
    description: "Only feedback with this label."
  }),
  has_comment: Schema.optionalKey(Schema.Literal(true)).annotateKey({
    description: "Only feedback with a comment (`true`)."
  }),
  end_user: Schema.optionalKey(EndUser).annotateKey({
    description: "Only feedback of the end user with this pseudonym."
  }),
  has_correction: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "Only feedback with a correction (`true`) or without one (`false`)."
  }),
  created_after: Schema.optionalKey(timestamp("Only feedback of this time or later.")),
  created_before: Schema.optionalKey(timestamp("Only feedback before this time."))
}
export type FeedbackFilter = Schema.Struct.Type<typeof feedbackFilter>

/** Staged corrections by ID. */
const FeedbackSelection = Schema.NonEmptyArray(FeedbackId).check(Schema.isMaxLength(10_000))

export const PreviewRequest = Schema.Struct({
  feedback_ids: FeedbackSelection.annotateKey({
    description: "The staged corrections that would be promoted, at most 10,000."
  })
}).annotate({ identifier: "PreviewRequest", description: "The staged corrections to preview." })

export const PromoteRequest = Schema.Struct({
  base_dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description: "`base_dataset_id` of the preview. Null if the task has no dataset yet."
  }),
  expected_feedback_revision: Schema.String.annotateKey({
    description: "`feedback_revision` of the preview: identifies the set of corrections to promote."
  }),
  feedback_ids: Schema.optionalKey(FeedbackSelection).annotateKey({
    description:
      "The staged corrections to promote, as previewed, at most 10,000. The others stay staged. Default all of the task's."
  })
}).annotate({
  identifier: "PromoteRequest",
  description: "The set of staged corrections to promote, as previewed."
})
export type PromoteRequest = typeof PromoteRequest.Type

/** A place in a preview: the last correction of the previous page, and the revision of the previewed set. */
export const PreviewCursor = Schema.String.check(Schema.isPattern(/^fbk_[0-9a-f]{32}\.[0-9a-f]{64}$/u)).pipe(
  Schema.brand("PreviewCursor")
)
export type PreviewCursor = typeof PreviewCursor.Type

export const PromotionPreview = Schema.Struct({
  base_dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description:
      "The newest version of the task's dataset. Null if it has none; the promotion makes the first."
  }),
  feedback_revision: Schema.String.annotateKey({
    description: "Opaque revision of the complete set of staged corrections. The same on every page."
  }),
  corrections: Schema.Array(StagedCorrection).annotateKey({
    description:
      "Corrections that would be promoted, newest first. A page of large ones can hold fewer than `limit`."
  }),
  next_cursor: page("corrections", StagedCorrection, PreviewCursor).fields.next_cursor,
  correction_count: Schema.Int.annotateKey({
    description: "How many corrections would be promoted in total."
  }),
  superseded: Schema.Array(SupersededCorrection)
    .check(documented({ maxItems: 1_000 }))
    .annotateKey({
      description: "Corrections that later ones of the same input replace. At most the first 1,000."
    }),
  superseded_count: Schema.Int.annotateKey({
    description: "How many corrections would be superseded in total."
  }),
  examples_added: Schema.Int.annotateKey({ description: "Corrections whose input is new to the dataset." }),
  examples_replaced: Schema.Int.annotateKey({
    description: "Corrections that replace an example with the same input."
  }),
  example_count: Schema.Int.annotateKey({
    description: "Number of examples in the version that the promotion would make."
  })
}).annotate({
  identifier: "PromotionPreview",
  description: "What promoting the task's staged corrections would do at this moment."
})
export type PromotionPreview = typeof PromotionPreview.Type

export const PromotionResult = Schema.Struct({
  dataset: Dataset.annotateKey({ description: "The new dataset version." }),
  promoted: Schema.Array(FeedbackId).annotateKey({ description: "IDs of the feedback that was promoted." }),
  feedback_revision: Schema.String.annotateKey({
    description: "Revision of the set of staged corrections after the promotion."
  }),
  redaction_warning: Schema.optionalKey(Schema.String).annotateKey({
    description:
      "Present if protected values were removed from inputs of runs: names the fields, with the feedback of each. The stored runs do not change."
  })
}).annotate({ identifier: "PromotionResult", description: "A completed promotion." })
export type PromotionResult = typeof PromotionResult.Type

export const RejectRequest = Schema.Struct({
  note: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description: "A note to the submitter, at most 4,000 characters. Default null."
  })
}).annotate({
  identifier: "RejectRequest",
  description: "Why the correction is rejected. The body can be left out."
})

/** Days of feedback that are counted if the query names no number. */
export const DEFAULT_QUALITY_DAYS = 30

/** A page of feedback. */
export const FeedbackPage = page("feedback", FeedbackRecord, FeedbackId)

export class FeedbackApi extends HttpApiGroup.make("feedback")
  .add(
    HttpApiEndpoint.post("create", "/v1/feedback", {
      headers: idempotencyHeaders,
      payload: NewFeedback,
      success: FeedbackRecord.pipe(HttpApiSchema.status(201)),
      error: [NotFound, PayloadTooLarge, InvalidCorrection, CorrectionNeedsSafeValue, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requiresEither("feedback.write", "feedback.create"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createFeedback",
          summary: "Give feedback",
          description: [
            "Stores a score, optionally with a comment and a correction, and responds when it is committed.",
            "Only an author's latest feedback on a run counts. The author is the API key, with the `end_user_id` if there is one. Earlier feedback stays as history with `current: false`, and its corrections stay in review.",
            "Before a correction or comment is stored, the organization's own credentials and anything in a known secret format are redacted from it; `redaction_warning` then names the fields. Credentials shorter than eight characters are not searched for, because ordinary text contains them.",
            "Body limit: 4 MiB.",
            "The live release does not change."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.post("createToken", "/v1/runs/:id/feedback-token", {
      params: { id: TraceId.annotateKey({ description: "The run's `trace_id`." }) },
      payload: [NewFeedbackToken, HttpApiSchema.NoContent],
      success: CreatedFeedbackToken.pipe(HttpApiSchema.status(201)),
      error: [NotFound, LimitReached]
    })
      .middleware(requiresEither("feedback.create", "feedback.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createFeedbackToken",
          summary: "Create a feedback token",
          description: [
            "Creates a token with which the browser of an end user can send feedback on one run, and do nothing else. Pass `token` and `url` to the page; the API key stays on your server.",
            "The body can be left out.",
            `All tokens of a run together allow ${MAX_RUN_USES} records of feedback. A token ends when its API key is revoked or expires.`,
            "Pages send it from the origins in the feedback settings only."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.get("list", "/v1/feedback", {
      query: { ...pageQuery(FeedbackId), ...feedbackFilter },
      success: FeedbackPage
    })
      .middleware(requires("feedback.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listFeedback",
          summary: "List feedback",
          description:
            "Lists feedback, newest first. Filters can be combined. A page of large corrections can hold fewer than `limit`."
        })
      ),
    HttpApiEndpoint.get("get", "/v1/feedback/:id", {
      params: { id: FeedbackId.annotateKey({ description: "The feedback's ID." }) },
      success: FeedbackDetail,
      error: NotFound
    })
      .middleware(requires("feedback.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getFeedback",
          summary: "Get feedback",
          description: "Returns one piece of feedback with the run that it is about."
        })
      ),
    HttpApiEndpoint.delete("remove", "/v1/feedback/:id", {
      params: { id: FeedbackId.annotateKey({ description: "The feedback's ID." }) },
      error: [NotFound, DatasetBusy]
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "deleteFeedback",
          summary: "Delete feedback",
          description:
            "Deletes feedback of any status, also a staged correction, and subtracts it from the counts by release and day. The example that a promoted correction became is erased from every dataset version. The run stays. It cannot be undone."
        })
      ),
    HttpApiEndpoint.post("stage", "/v1/feedback/:id/stage", {
      params: { id: FeedbackId.annotateKey({ description: "The feedback's ID." }) },
      success: FeedbackRecord,
      error: [NotFound, SelfReview, FeedbackNotPending, LimitReached]
    })
      .middleware(requires("feedback.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "stageFeedback",
          summary: "Stage a correction",
          description:
            "Accepts a pending correction for the next promotion. Idempotent. If the task has `self_review: false`, the key of another person than the submitter must do it. A task can have about 10,000 staged corrections; another fails with 409 `LIMIT_REACHED`."
        })
      ),
    HttpApiEndpoint.post("unstage", "/v1/feedback/:id/unstage", {
      params: { id: FeedbackId.annotateKey({ description: "The feedback's ID." }) },
      success: FeedbackRecord,
      error: [NotFound, FeedbackNotPending]
    })
      .middleware(requires("feedback.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "unstageFeedback",
          summary: "Undo the staging of a correction",
          description:
            "Makes a staged correction pending again, so that the next promotion does not take it. Idempotent. A promoted or rejected correction gets 409 `FEEDBACK_NOT_PENDING`."
        })
      ),
    HttpApiEndpoint.post("reject", "/v1/feedback/:id/reject", {
      params: { id: FeedbackId.annotateKey({ description: "The feedback's ID." }) },
      payload: [RejectRequest, HttpApiSchema.NoContent],
      success: FeedbackRecord,
      error: [NotFound, FeedbackNotPending]
    })
      .middleware(requires("feedback.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "rejectFeedback",
          summary: "Reject a correction",
          description:
            "Rejects a pending or staged correction, optionally with a note to the submitter. Idempotent."
        })
      ),
    HttpApiEndpoint.post("confirm", "/v1/runs/:id/confirm", {
      headers: idempotencyHeaders,
      params: { id: TraceId.annotateKey({ description: "The run's `trace_id`." }) },
      success: FeedbackRecord.pipe(HttpApiSchema.status(201)),
      error: [
        NotFound,
        PayloadTooLarge,
        InvalidCorrection,
        CorrectionNeedsSafeValue,
        FeedbackNotPending,
        LimitReached
      ]
    })
      .middleware(Idempotent)
      .middleware(requires("feedback.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "confirmRun",
          summary: "Confirm a run's answer",
          description: [
            "Confirms the answer as an example: stores feedback with the score 1 and the answer as its correction, and stages it. The next promotion takes it.",
            "The example has the origin `confirmed`.",
            "If the task has `self_review: false`, the feedback stays pending until another person's key stages it.",
            "A failed run gets 400 `INVALID_REQUEST`."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.post("withdraw", "/v1/feedback/:id/withdraw", {
      params: { id: FeedbackId.annotateKey({ description: "The feedback's ID." }) },
      success: FeedbackRecord,
      error: [NotFound, FeedbackOfAnotherKey]
    })
      .middleware(requiresEither("feedback.write", "feedback.create"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "withdrawFeedback",
          summary: "Withdraw feedback",
          description: [
            "Withdraws an opinion: it is not counted any more, and tools that got its score get the label `withdrawn` in its place.",
            "A correction that waits for review or promotion is closed; the example of a promoted one stays.",
            "Earlier feedback of the author stays replaced.",
            "Only the key that gave the feedback, or created the end user's feedback token, can do it, or a key that it made.",
            "Idempotent."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.post("reviewMany", "/v1/feedback/review", {
      payload: ReviewManyRequest,
      success: ReviewResults
    })
      .middleware(requires("feedback.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "reviewFeedback",
          summary: "Review several corrections",
          description: [
            `Stages, un-stages or rejects up to ${MAX_REVIEWS} corrections, each under the checks of a single review and independently of the others.`,
            "The response is 200 with a result for each: its status, and the problem that a single review would have got.",
            "Repeating the request is idempotent.",
            "It counts as one request for each correction towards the rate limits."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.get("getQuality", "/v1/tasks/:id/feedback/quality", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      query: {
        days: Schema.optionalKey(
          Schema.Int.check(
            Schema.isBetween(
              { minimum: 1, maximum: MAX_QUALITY_DAYS },
              { expected: `a whole number from 1 to ${MAX_QUALITY_DAYS}` }
            )
          )
        ).annotateKey({
          description: `Days up to today in UTC, 1 to ${MAX_QUALITY_DAYS}. Default ${DEFAULT_QUALITY_DAYS}.`
        })
      },
      success: FeedbackQuality,
      error: NotFound
    })
      .middleware(requires("feedback.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getFeedbackQuality",
          summary: "Get feedback by release",
          description:
            "Counts the current feedback on the task's runs by release and by day of the feedback, for the last days: of each author the latest opinion about a run. Feedback on answers that clients logged is counted apart, with `release_id` null. The counts include feedback from the moment that it is stored."
        })
      ),
    HttpApiEndpoint.get("previewPromotion", "/v1/tasks/:id/feedback/preview", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      query: pageQuery(PreviewCursor),
      success: PromotionPreview,
      error: [NotFound, FeedbackChanged]
    })
      .middleware(requiresEither("feedback.read", "datasets.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "previewPromotion",
          summary: "Preview a promotion",
          description:
            "Shows what promoting the task's staged corrections would do. All pages are of one set. A later page fails with 409 `FEEDBACK_CHANGED` if the set has changed since the first page; preview it again from the first page. For up to a minute, later pages can continue the first one, also if other corrections are staged meanwhile. A promotion fails if the set has changed since the preview."
        })
      ),
    HttpApiEndpoint.post("previewSelection", "/v1/tasks/:id/feedback/preview", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      query: pageQuery(PreviewCursor),
      payload: PreviewRequest,
      success: PromotionPreview,
      error: [NotFound, FeedbackChanged]
    })
      .middleware(requiresEither("feedback.read", "datasets.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "previewPromotionOfSelection",
          summary: "Preview a promotion of some corrections",
          description:
            "Shows what promoting these staged corrections would do. `feedback_revision` is that of exactly these. Changes nothing."
        })
      ),
    HttpApiEndpoint.post("promote", "/v1/tasks/:id/feedback/promote", {
      headers: idempotencyHeaders,
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      payload: PromoteRequest,
      success: PromotionResult.pipe(HttpApiSchema.status(201)),
      error: [NotFound, DatasetBaseChanged, DatasetBusy, FeedbackChanged, NothingStaged, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requires("datasets.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "promoteFeedback",
          summary: "Promote staged corrections",
          description:
            "Makes the next version of the task's dataset from all of its staged corrections, or from those in `feedback_ids`. Of several with the same input, the one staged last is promoted and the others are superseded. Fails without any change if the dataset or the set of corrections changed since the preview. A live release keeps its dataset version, and the next comparison runs on the new one. A first version is used by the task's first release immediately."
        })
      )
  )
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Feedback",
      description:
        "Feedback scores the answer of a run and can correct it. Reviewers stage or reject corrections; a promotion makes the staged ones into the next dataset version."
    })
  ) {}
