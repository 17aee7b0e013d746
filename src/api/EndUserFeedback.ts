/**
 * Feedback that browsers and apps of end users send, with a feedback token. Not part of `Api`, whose operations all require an API
 * key: this is the only operation that takes a feedback token, and the only one with CORS. The OpenAPI document has both.
 */
import { ByteSize, Context, Schema } from "effect"
import {
  HttpApi,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware,
  HttpApiSchema,
  HttpApiSecurity,
  OpenApi
} from "effect/http-api"
import { TraceId } from "../domain/Ids.ts"
import type { FeedbackToken } from "../domain/tasks/FeedbackToken.ts"
import { feedbackScores, hasScore } from "./Feedback.ts"
import { BodyLimit, ProblemFrame, RequestBody, requestParsing } from "./Middleware.ts"
import { InvalidFeedbackToken, LimitReached, OriginNotAllowed, RateLimited } from "./Problems.ts"

/** The path of the operation, for one run. */
export const END_USER_FEEDBACK_PATH = "/v1/runs/:id/end-user-feedback"

/** The path of the operation for a run. */
export const endUserFeedbackPath = (trace_id: TraceId): string =>
  END_USER_FEEDBACK_PATH.replace(":id", trace_id)

/** The feedback token of the current request: its signature is valid, and it has not expired. */
export class CurrentFeedbackToken extends Context.Service<CurrentFeedbackToken, FeedbackToken>()(
  "countersign/api/CurrentFeedbackToken"
) {}

const bearer = HttpApiSecurity.annotate(
  HttpApiSecurity.http({ scheme: "bearer" }),
  OpenApi.Description,
  "A feedback token as a bearer token: `Authorization: Bearer cft_…`."
)

/** `Authorization: Bearer <feedback token>`, from an origin that the organization allows. Adds the headers of CORS. */
export class FeedbackTokenAuthentication extends HttpApiMiddleware.Service<
  FeedbackTokenAuthentication,
  { provides: CurrentFeedbackToken; requires: never }
>()("countersign/api/FeedbackTokenAuthentication", {
  requiredForClient: true,
  security: { feedback_token: bearer },
  error: [InvalidFeedbackToken, OriginNotAllowed, RateLimited]
}) {}

export const EndUserFeedback = Schema.Struct(feedbackScores).check(hasScore).annotate({
  identifier: "EndUserFeedback",
  description: "Feedback of an end user on the answer of one run."
})
export type EndUserFeedback = typeof EndUserFeedback.Type

/** Where end users' browsers send feedback. */
export class EndUserFeedbackApi extends HttpApi.make("countersign-end-user-feedback")
  .add(
    HttpApiGroup.make("end_user_feedback")
      .add(
        HttpApiEndpoint.post("submit", END_USER_FEEDBACK_PATH, {
          params: { id: TraceId.annotateKey({ description: "The run's trace ID." }) },
          payload: EndUserFeedback,
          success: HttpApiSchema.NoContent,
          error: [InvalidFeedbackToken, LimitReached]
        })
          .annotate(BodyLimit, ByteSize.kibibytes(32))
          .annotateMerge(
            OpenApi.annotations({
              identifier: "submitEndUserFeedback",
              summary: "Give feedback as an end user",
              description:
                "Stores the score of an end user on one run, optionally with a label and a comment, and responds when it is committed. For the pages and apps of end users: with the feedback token that `createFeedbackToken` returned, and from an origin that the organization allows. Body limit: 32 KiB."
            })
          )
      )
      .middleware(RequestBody)
      .middleware(FeedbackTokenAuthentication)
      .annotateMerge(
        OpenApi.annotations({
          title: "End-user feedback",
          description: "The one operation for end users, who have no API key."
        })
      )
  )
  .annotateMerge(requestParsing)
  .middleware(ProblemFrame) {}
