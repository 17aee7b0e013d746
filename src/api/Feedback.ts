import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Dataset, JsonObject } from "../domain/tasks/Dataset.ts"
import {
  FeedbackDetail,
  FeedbackRecord,
  FeedbackStatus,
  Score,
  StagedCorrection,
  SupersededCorrection
} from "../domain/tasks/Feedback.ts"
import { DatasetId, FeedbackId, TaskId, TraceId } from "../domain/Ids.ts"
import { Timestamp } from "../domain/Time.ts"
import { Authentication, requires, requiresEither } from "./Authorization.ts"
import { BodyLimit, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  CorrectionNeedsSafeValue,
  DatasetBaseChanged,
  FeedbackChanged,
  FeedbackNotPending,
  InvalidCorrection,
  LimitReached,
  NotFound,
  NothingStaged,
  PayloadTooLarge
} from "./Problems.ts"
import { Comment } from "./Text.ts"

/** What is said of a run's answer. */
export const NewFeedback = Schema.Struct({
  /** The `trace_id` of the run's answer, which also came as `x-svc-trace-id`. One that is unknown is answered 404. */
  inference_log_id: Schema.String,
  score: Score,
  /** The answer that should have been returned, in the task's answer shape. */
  correction: Schema.optionalKey(Schema.NullOr(JsonObject))
}).annotate({ identifier: "NewFeedback" })
export type NewFeedback = typeof NewFeedback.Type

/** Which feedback a list shows. */
export const feedbackFilter = {
  task_id: Schema.optionalKey(TaskId),
  status: Schema.optionalKey(FeedbackStatus),
  score: Schema.optionalKey(Score),
  inference_log_id: Schema.optionalKey(TraceId),
  has_correction: Schema.optionalKey(Schema.Boolean),
  /** From this time on. */
  created_after: Schema.optionalKey(Timestamp),
  /** Before this time. */
  created_before: Schema.optionalKey(Timestamp)
}
export type FeedbackFilter = Schema.Struct.Type<typeof feedbackFilter>

/** The set of staged corrections that is promoted, as a preview showed it. */
export const PromoteRequest = Schema.Struct({
  base_dataset_id: Schema.NullOr(DatasetId),
  expected_feedback_revision: Schema.String
}).annotate({ identifier: "PromoteRequest" })
export type PromoteRequest = typeof PromoteRequest.Type

/** What a promotion would do, as things stand now. */
export const PromotionPreview = Schema.Struct({
  /** The task's newest version; null where it has none, and the promotion makes the first. */
  base_dataset_id: Schema.NullOr(DatasetId),
  /** Opaque. Names the whole set of the task's staged corrections, whichever page of them this is. */
  feedback_revision: Schema.String,
  /** Those that would be promoted, newest first. A page may hold fewer than were asked for where they are large. */
  corrections: Schema.Array(StagedCorrection),
  next_cursor: page("corrections", StagedCorrection, FeedbackId).fields.next_cursor,
  /** How many would be promoted in all. */
  correction_count: Schema.Int,
  /** The first 1,000 of those that others of the same run take the place of. */
  superseded: Schema.Array(SupersededCorrection),
  superseded_count: Schema.Int,
  /** Corrections whose input the base does not have. */
  examples_added: Schema.Int,
  /** Corrections that take the place of examples with the very same input. */
  examples_replaced: Schema.Int
}).annotate({ identifier: "PromotionPreview" })
export type PromotionPreview = typeof PromotionPreview.Type

/** A promotion that was made. */
export const PromotionResult = Schema.Struct({
  dataset: Dataset,
  promoted: Schema.Array(FeedbackId),
  /** Names what is staged now. */
  feedback_revision: Schema.String
}).annotate({ identifier: "PromotionResult" })
export type PromotionResult = typeof PromotionResult.Type

/** Feedback on the answers of runs, its review, and its way into the next version of a task's dataset. */
export class FeedbackApi extends HttpApiGroup.make("feedback")
  .add(
    HttpApiEndpoint.post("create", "/v1/feedback", {
      headers: idempotencyHeaders,
      payload: NewFeedback,
      success: FeedbackRecord.pipe(HttpApiSchema.status(201)),
      error: [NotFound, PayloadTooLarge, InvalidCorrection, CorrectionNeedsSafeValue]
    })
      .middleware(Idempotent)
      .middleware(requires("feedback.write"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotate(
        OpenApi.Description,
        "Answered once it is committed. Credentials of the organization and recognizable secrets are removed from a correction before it is saved, whatever its fields are called; `redaction_warning` then names the fields. A credential of fewer than eight characters stands in ordinary texts too and is not looked for. A correction is searched whole or not taken: one with a text of more than 262,144 characters, or of more than 100,000 parts, is answered 413. `errors` names 20 fields at most. What is live does not change."
      ),
    HttpApiEndpoint.get("list", "/v1/feedback", {
      query: { ...pageQuery(FeedbackId), ...feedbackFilter },
      success: page("feedback", FeedbackRecord, FeedbackId)
    })
      .middleware(requires("feedback.read"))
      .annotate(
        OpenApi.Description,
        "Newest first. A page may hold fewer than were asked for where the corrections are large."
      ),
    HttpApiEndpoint.get("get", "/v1/feedback/:id", {
      params: { id: FeedbackId },
      success: FeedbackDetail,
      error: NotFound
    })
      .middleware(requires("feedback.read"))
      .annotate(OpenApi.Description, "One piece of feedback with the run that it is about."),
    HttpApiEndpoint.post("stage", "/v1/feedback/:id/stage", {
      params: { id: FeedbackId },
      success: FeedbackRecord,
      error: [NotFound, FeedbackNotPending, LimitReached]
    })
      .middleware(requires("feedback.write"))
      .annotate(
        OpenApi.Description,
        "Accepts a pending correction for the next promotion. Again: the same answer. A task has some 10,000 staged corrections at most: past that 409 `LIMIT_REACHED`."
      ),
    HttpApiEndpoint.post("reject", "/v1/feedback/:id/reject", {
      params: { id: FeedbackId },
      payload: [Schema.Struct({ note: Schema.optionalKey(Schema.NullOr(Comment)) }), HttpApiSchema.NoContent],
      success: FeedbackRecord,
      error: [NotFound, FeedbackNotPending]
    })
      .middleware(requires("feedback.write"))
      .annotate(
        OpenApi.Description,
        "Refuses a pending correction, with a note for who gave it. Again: the same answer."
      ),
    HttpApiEndpoint.get("preview", "/v1/tasks/:task_id/feedback/preview", {
      params: { task_id: TaskId },
      query: pageQuery(FeedbackId),
      success: PromotionPreview,
      error: NotFound
    })
      .middleware(requiresEither("feedback.read", "datasets.write"))
      .annotate(OpenApi.Description, "What promoting the task's staged corrections would do."),
    HttpApiEndpoint.post("promote", "/v1/tasks/:task_id/feedback/promote", {
      headers: idempotencyHeaders,
      params: { task_id: TaskId },
      payload: PromoteRequest,
      success: PromotionResult.pipe(HttpApiSchema.status(201)),
      error: [NotFound, DatasetBaseChanged, FeedbackChanged, NothingStaged]
    })
      .middleware(Idempotent)
      .middleware(requires("datasets.write"))
      .annotate(
        OpenApi.Description,
        "Makes the next version of the task's dataset from its staged corrections: all of them, or nothing where the dataset or the set has changed since the preview. What is live does not change; the next comparison runs on the new version."
      )
  )
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Feedback",
      description:
        "Scores and corrections of answers: recorded, reviewed, and promoted into the next dataset version."
    })
  ) {}
