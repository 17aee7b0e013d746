import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { FeedbackSettings } from "../FeedbackSettings.ts"

/** The handlers of `/v1/feedback-settings`. */
export const FeedbackSettingsHttp = HttpApiBuilder.group(
  Api,
  "feedbackSettings",
  Effect.fnUntraced(function* (handlers) {
    const settings = yield* FeedbackSettings
    return handlers.handleAll({
      get: () => settings.get,
      replace: ({ payload }) => settings.replace(payload)
    })
  })
)
