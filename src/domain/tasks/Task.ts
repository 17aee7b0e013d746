import { Schema } from "effect"
import { ComparisonId, DatasetId, ReleaseId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Provider } from "./Provider.ts"
import { Timestamp } from "../Time.ts"

/** A JSON Schema 2020-12 with an object at its top. */
export const JsonSchema = Schema.Record(Schema.String, Schema.Json)
export type JsonSchema = typeof JsonSchema.Type

/** What the model is told, besides the input and the shape of the answer. */
export const Instructions = Schema.String.check(Schema.isMaxLength(100_000))

/**
 * A question that an AI is asked over and over: the shapes of its inputs and answers, and the working copy of what the next comparison
 * tries. What runs are answered by is the live release.
 */
export const Task = Schema.Struct({
  id: TaskId,
  name: Schema.String,
  /** The working copy: what a comparison takes where its candidate names none. */
  instructions: Schema.String,
  input_schema: JsonSchema,
  answer_schema: JsonSchema,
  /** The working copy, as `instructions`. */
  provider: Provider,
  /** Whether there is a key for the provider's base URL. */
  provider_key_set: Schema.Boolean,
  live_release_id: ReleaseId,
  /** The newest version of the task's dataset; null: it has none yet. */
  dataset_id: Schema.NullOr(DatasetId),
  created_at: Timestamp,
  created_by: Actor
}).annotate({ identifier: "Task" })
export type Task = typeof Task.Type

/** What a task's runs are answered by, from when it was released until the next release. */
export const Release = Schema.Struct({
  id: ReleaseId,
  task_id: TaskId,
  instructions: Schema.String,
  provider: Provider,
  dataset_id: Schema.NullOr(DatasetId),
  /** The comparison that it was released by; null: it is the task's first, or an earlier one again. */
  comparison_id: Schema.NullOr(ComparisonId),
  /** The earlier release that was made live again by it. */
  restored_release_id: Schema.NullOr(ReleaseId),
  created_at: Timestamp,
  created_by: Actor
}).annotate({ identifier: "Release" })
export type Release = typeof Release.Type
