/**
 * Feedback that browsers of end users send, with a feedback token. Not part of `Api`, whose operations all require an API
 * key: this is the only operation that takes a feedback token, and the only one with CORS.
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
import { feedbackScores } from "./Feedback.ts"
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

export const EndUserFeedback = Schema.Struct(feedbackScores).annotate({
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
          params: { id: TraceId },
          payload: EndUserFeedback,
          success: HttpApiSchema.NoContent,
          error: [InvalidFeedbackToken, LimitReached]
        }).annotate(BodyLimit, ByteSize.kibibytes(32))
      )
      .middleware(RequestBody)
      .middleware(FeedbackTokenAuthentication)
  )
  .annotateMerge(requestParsing)
  .middleware(ProblemFrame) {}
