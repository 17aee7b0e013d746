import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { Authorized } from "../../../api/Authorization.ts"
import { DEFAULT_QUALITY_DAYS, FeedbackPage, PromotionPreview } from "../../../api/Feedback.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { ReviewResults } from "../../../api/ReviewBatch.ts"
import { RequestCharges } from "../../identity/RequestCharges.ts"
import { Feedback } from "../Feedback.ts"
import { FeedbackTokens } from "../FeedbackTokens.ts"

const respondFeedbackPage = jsonResponse(FeedbackPage)
const respondReviewResults = jsonResponse(ReviewResults)
const respondPromotionPreview = jsonResponse(PromotionPreview)

/** The handlers of the `feedback` group. */
export const FeedbackHttp = HttpApiBuilder.group(
  Api,
  "feedback",
  Effect.fnUntraced(function* (handlers) {
    const feedback = yield* Feedback
    const tokens = yield* FeedbackTokens
    const charges = yield* RequestCharges
    return handlers.handleAll({
      create: ({ payload }) => feedback.create(payload),
      createToken: ({ params, payload }) => tokens.create(params.id, payload ?? {}),
      list: ({ query }) =>
        Effect.flatMap(feedback.list(query), ({ items, next_cursor }) =>
          respondFeedbackPage({ feedback: items, next_cursor })
        ),
      get: ({ params }) => feedback.get(params.id),
      remove: ({ params }) => feedback.remove(params.id),
      stage: ({ params }) => feedback.stage(params.id),
      unstage: ({ params }) => feedback.unstage(params.id),
      reject: ({ params, payload }) => feedback.reject(params.id, payload?.note ?? null),
      reviewMany: ({ payload }) =>
        Authorized("feedback.write").pipe(
          // The first of them was counted when the request was admitted.
          Effect.flatMap((principal) => charges.charge(principal, payload.feedback_ids.length - 1)),
          Effect.andThen(feedback.reviewMany(payload)),
          Effect.flatMap((results) => respondReviewResults({ results }))
        ),
      getQuality: ({ params, query }) => feedback.quality(params.id, query.days ?? DEFAULT_QUALITY_DAYS),
      previewPromotion: ({ params, query }) =>
        Effect.flatMap(feedback.preview(params.id, query), respondPromotionPreview),
      previewSelection: ({ params, payload, query }) =>
        Effect.flatMap(
          feedback.previewSelection(params.id, query, payload.feedback_ids),
          respondPromotionPreview
        ),
      promote: ({ params, payload }) => feedback.promote(params.id, payload)
    })
  })
)
