/** The feedback queue of the console: feedback with the start of its run. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { FeedbackId } from "../../domain/Ids.ts"
import { FeedbackRecord } from "../../domain/tasks/Feedback.ts"
import { Authentication, requires } from "../Authorization.ts"
import { feedbackFilter } from "../Feedback.ts"
import { RequestBody } from "../Middleware.ts"
import { page, pageQuery } from "../Pagination.ts"

/** The most characters of an input in a row. */
export const MAX_INPUT_START = 400

/** Feedback in the queue. */
export const FeedbackRow = Schema.Struct({
  ...FeedbackRecord.fields,
  task_name: Schema.String,
  /** The start of the input's JSON text, at most `MAX_INPUT_START` characters. Null: the input is too large to be read for a list. */
  input_start: Schema.NullOr(Schema.String)
}).annotate({ identifier: "FeedbackRow" })
export type FeedbackRow = typeof FeedbackRow.Type

/** The feedback queue. */
export class ConsoleFeedbackApi extends HttpApiGroup.make("feedback_rows")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(FeedbackId), ...feedbackFilter },
      success: page("feedback", FeedbackRow, FeedbackId)
    }).middleware(requires("feedback.read"))
  )
  .prefix("/console/feedback-rows")
  .middleware(RequestBody)
  .middleware(Authentication) {}
