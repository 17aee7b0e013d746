import { Schema } from "effect"
import { DatasetId, ExampleId, FeedbackId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Timestamp } from "../Time.ts"

/** What a task is given, and what it answers: a JSON object in the task's shape. */
export const JsonObject = Schema.Record(Schema.String, Schema.Json)
export type JsonObject = typeof JsonObject.Type

/** One version of a task's dataset. It never changes: another content is another version. */
export const Dataset = Schema.Struct({
  id: DatasetId,
  task_id: TaskId,
  /** 1 for the task's first; each version is made from the one before it. */
  version: Schema.Int,
  base_dataset_id: Schema.NullOr(DatasetId),
  example_count: Schema.Int,
  /** Equal contents have equal digests, whatever order the examples came in: 64 hex digits. */
  content_digest: Schema.String,
  created_at: Timestamp,
  created_by: Actor
}).annotate({ identifier: "Dataset" })
export type Dataset = typeof Dataset.Type

/** An input, and what should be answered to it. An example never changes: a correction of one is another example in its place. */
export const Example = Schema.Struct({
  id: ExampleId,
  input: JsonObject,
  answer: JsonObject,
  /** The feedback whose correction this is; null where it was given as an example. */
  source_feedback_id: Schema.NullOr(FeedbackId)
}).annotate({ identifier: "Example" })
export type Example = typeof Example.Type

/** An example as it is given: it has no id yet. */
export interface NewExample {
  readonly input: JsonObject
  readonly answer: JsonObject
  readonly source_feedback_id: FeedbackId | null
}
