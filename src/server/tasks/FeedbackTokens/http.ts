import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentFeedbackToken, EndUserFeedbackApi } from "../../../api/EndUserFeedback.ts"
import { FeedbackTokens } from "../FeedbackTokens.ts"

/** The handler of end users' feedback. */
export const EndUserFeedbackHttp = HttpApiBuilder.group(
  EndUserFeedbackApi,
  "end_user_feedback",
  Effect.fnUntraced(function* (handlers) {
    const tokens = yield* FeedbackTokens
    return handlers.handleAll({
      submit: ({ params, payload }) =>
        Effect.flatMap(CurrentFeedbackToken, (token) => tokens.submit(token, params.id, payload))
    })
  })
)
