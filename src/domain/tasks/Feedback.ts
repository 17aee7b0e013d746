import { Schema } from "effect"
import { JsonObject } from "./Dataset.ts"
import { DatasetId, FeedbackId, TaskId, TraceId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Timestamp } from "../Time.ts"

/** 1: right, 0: neutral, -1: wrong. */
export const Score = Schema.Literals([1, 0, -1])
export type Score = typeof Score.Type

/** Where feedback stands. `recorded` has no correction, and stays so; the others are states of a correction. */
export const FeedbackStatus = Schema.Literals([
  "recorded",
  "pending",
  "staged",
  "rejected",
  "promoted",
  "superseded"
])
export type FeedbackStatus = typeof FeedbackStatus.Type

/** What somebody said of a run's answer, and what became of their correction. */
export const FeedbackRecord = Schema.Struct({
  id: FeedbackId,
  task_id: TaskId,
  /** The `trace_id` of the run. */
  inference_log_id: TraceId,
  score: Score,
  /** What should have been answered, without the values that were removed from it. */
  correction: Schema.NullOr(JsonObject),
  status: FeedbackStatus,
  /** Names the fields that a protected value was removed from; absent where none was. */
  redaction_warning: Schema.optionalKey(Schema.String),
  created_at: Timestamp,
  created_by: Actor,
  reviewed_at: Schema.NullOr(Timestamp),
  reviewed_by: Schema.NullOr(Actor),
  review_note: Schema.NullOr(Schema.String),
  /** The version that the correction was promoted into. */
  dataset_id: Schema.NullOr(DatasetId)
}).annotate({ identifier: "Feedback" })
export type FeedbackRecord = typeof FeedbackRecord.Type

/** Feedback with the run that it is about, for the reviewer. */
export const FeedbackDetail = Schema.Struct({
  ...FeedbackRecord.fields,
  input: JsonObject,
  /** Null where the run failed. */
  answer: Schema.NullOr(JsonObject)
}).annotate({ identifier: "FeedbackDetail" })
export type FeedbackDetail = typeof FeedbackDetail.Type

/** A staged correction as it would be promoted: with the input that it would be the answer to. */
export const StagedCorrection = Schema.Struct({
  ...FeedbackRecord.fields,
  input: JsonObject
}).annotate({ identifier: "StagedCorrection" })
export type StagedCorrection = typeof StagedCorrection.Type

/** A staged correction that another one of the same run, staged later, takes the place of. */
export const SupersededCorrection = Schema.Struct({
  id: FeedbackId,
  superseded_by: FeedbackId
}).annotate({ identifier: "SupersededCorrection" })
export type SupersededCorrection = typeof SupersededCorrection.Type
