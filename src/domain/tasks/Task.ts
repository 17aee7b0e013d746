import { Schema } from "effect"
import { documented } from "../documented.ts"
import { ComparisonId, DatasetId, ReleaseId, TaskId } from "../Ids.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { Actor } from "../identity/Principal.ts"
import { Provider } from "./Provider.ts"
import { timestamp } from "../Time.ts"

/** A JSON Schema 2020-12 whose top level is an object. */
export const JsonSchema = Schema.Record(Schema.String, JsonValue).check(
  // Other faults are `INVALID_SCHEMA`.
  documented({
    properties: { type: { type: "string", enum: ["object"], description: "Always `object`." } },
    required: ["type"]
  })
)
export type JsonSchema = typeof JsonSchema.Type

/** Instructions for the model, sent besides the input and the answer schema. At most 100,000 characters. */
export const Instructions = Schema.String.check(Schema.isMaxLength(100_000))

export const Task = Schema.Struct({
  id: TaskId.annotateKey({ description: "The task's ID." }),
  name: Schema.String.annotateKey({ description: "The task's name." }),
  instructions: Schema.String.annotateKey({
    description:
      "Working copy of the instructions, which the next comparison tries. Runs use the live release's instructions."
  }),
  input_schema: JsonSchema.annotateKey({
    description: "JSON Schema 2020-12 of inputs. Fixed once the task has runs or a dataset."
  }),
  answer_schema: JsonSchema.annotateKey({
    description: "JSON Schema 2020-12 of answers and corrections. Fixed once the task has runs or a dataset."
  }),
  provider: Provider.annotateKey({
    description:
      "Working copy of the provider, which the next comparison tries. Runs use the live release's provider."
  }),
  provider_key_set: Schema.Boolean.annotateKey({
    description: "Whether the task has an API key for the base URL of `provider`."
  }),
  live_release_id: ReleaseId.annotateKey({ description: "The release that answers runs." }),
  dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description: "The newest version of the task's dataset. Null if it has none."
  }),
  created_at: timestamp("When the task was created."),
  created_by: Actor.annotateKey({ description: "The API key that created the task." })
}).annotate({
  identifier: "Task",
  description:
    "A question that a model is asked repeatedly: the schemas of its inputs and answers, and the working copy of its instructions and provider."
})
export type Task = typeof Task.Type

export const Release = Schema.Struct({
  id: ReleaseId.annotateKey({ description: "The release's ID." }),
  task_id: TaskId.annotateKey({ description: "The task." }),
  instructions: Schema.String.annotateKey({ description: "The instructions that its runs use." }),
  provider: Provider.annotateKey({ description: "The provider that answers its runs." }),
  dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description: "The dataset version that it was released with. Null if the task had none."
  }),
  comparison_id: Schema.NullOr(ComparisonId).annotateKey({
    description: "The comparison whose candidate it is. Null for a task's first release and for a rollback."
  }),
  restored_release_id: Schema.NullOr(ReleaseId).annotateKey({
    description: "The earlier release that it restores. Null unless it is a rollback."
  }),
  created_at: timestamp("When it was made live."),
  created_by: Actor.annotateKey({ description: "The API key that made it live." })
}).annotate({
  identifier: "Release",
  description: "What answers a task's runs, from when it is made live until the next release."
})
export type Release = typeof Release.Type
