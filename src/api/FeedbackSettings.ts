import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { MAX_ORIGINS, WebOrigin } from "../domain/network/WebOrigin.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { FeedbackSettingsChanged } from "./Problems.ts"

const allowedOrigins = Schema.Array(WebOrigin)
  .check(Schema.isMaxLength(MAX_ORIGINS))
  .annotateKey({
    description: `Origins whose pages may send feedback with a feedback token, such as \`https://app.example.com\`, at most ${MAX_ORIGINS}. Without any, no page may; apps that are not in a browser send no origin and need none.`
  })

export const FeedbackSettings = Schema.Struct({
  allowed_origins: allowedOrigins,
  revision: Schema.Int.annotateKey({
    description: "Revision of the settings. It increases with every change; 0 before the first."
  })
}).annotate({
  identifier: "FeedbackSettings",
  description: "The organization's settings for the feedback of end users."
})
export type FeedbackSettings = typeof FeedbackSettings.Type

export const ReplaceFeedbackSettings = Schema.Struct({
  allowed_origins: allowedOrigins,
  revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision that is to be replaced. If it is no longer current, the request fails. Absent: any."
  })
}).annotate({ identifier: "ReplaceFeedbackSettings", description: "The complete settings." })
export type ReplaceFeedbackSettings = typeof ReplaceFeedbackSettings.Type

export class FeedbackSettingsApi extends HttpApiGroup.make("feedbackSettings")
  .add(
    HttpApiEndpoint.get("get", "/", { success: FeedbackSettings })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getFeedbackSettings",
          summary: "Get the feedback settings",
          description: "Returns the origins whose pages may send feedback of end users."
        })
      ),
    HttpApiEndpoint.put("replace", "/", {
      payload: ReplaceFeedbackSettings,
      success: FeedbackSettings,
      error: FeedbackSettingsChanged
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replaceFeedbackSettings",
          summary: "Replace the feedback settings",
          description:
            "Replaces the allowed origins; the next feedback is checked against the new ones. With `revision`, fails with 409 `FEEDBACK_SETTINGS_CHANGED` if the settings changed since."
        })
      )
  )
  .prefix("/v1/feedback-settings")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Feedback settings",
      description: "Which web pages may send feedback of end users, with a feedback token."
    })
  ) {}
