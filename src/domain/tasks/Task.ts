import { Schema } from "effect"
import { documented } from "../documented.ts"
import { ComparisonId, DatasetId, ReleaseId, TaskId } from "../Ids.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { Actor } from "../identity/Principal.ts"
import { Provider } from "./Provider.ts"
import { timestamp } from "../Time.ts"

/** A JSON Schema 2020-12 that allows only objects. */
export const JsonSchema = Schema.Record(Schema.String, JsonValue).check(
  // Faults are `INVALID_SCHEMA`.
  documented({
    properties: {
      type: {
        type: "string",
        enum: ["object"],
        description:
          "Always `object`. Absent if the schema is a `$ref` to one with it, or combines such schemas."
      }
    }
  })
)
export type JsonSchema = typeof JsonSchema.Type

/** Instructions for the model, sent besides the input and the answer schema. At most 100,000 characters. */
export const Instructions = Schema.String.check(Schema.isMaxLength(100_000))

/** Share of runs with an answer that is sampled for review. */
export const ReviewShare = Schema.Finite.check(
  Schema.isBetween({ minimum: 0, maximum: 1 }, { expected: "a share from 0 to 1" })
)

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
  provider_headers_set: Schema.Boolean.annotateKey({
    description: "Whether the task has extra headers for the base URL of `provider`."
  }),
  self_review: Schema.Boolean.annotateKey({
    description:
      "Whether the API key that submitted a correction, or a key that it created, can stage it. If false, that gets 403 `SELF_REVIEW`."
  }),
  live_release_id: ReleaseId.annotateKey({ description: "The release that answers runs." }),
  canary_release_id: Schema.NullOr(ReleaseId).annotateKey({
    description: "The canary, which answers a share of the runs. Null if there is none."
  }),
  review_share: ReviewShare.annotateKey({
    description: "Share of the runs with an answer that is sampled for review, 0 to 1."
  }),
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

export const SchemaWarning = Schema.Struct({
  pointer: Schema.String.annotate({ examples: ["#/answer_schema/properties/email/format"] }).annotateKey({
    description: "JSON Pointer to the keyword in the request, in URI fragment form (RFC 6901)."
  }),
  detail: Schema.String.annotateKey({
    description: "Why the keyword has no effect, and what to use instead."
  })
}).annotate({
  identifier: "SchemaWarning",
  description: "A keyword of a schema that restricts no value, although its author may think so."
})
export type SchemaWarning = typeof SchemaWarning.Type

export const SavedTask = Schema.Struct({
  ...Task.fields,
  warnings: Schema.Array(SchemaWarning).annotateKey({
    description:
      "Keywords of the request's schemas that have no effect, such as `format`, `nullable` and unknown ones: at most 20 per schema. Empty if there are none."
  })
}).annotate({
  identifier: "SavedTask",
  description: "A task that was created or updated, and warnings about the schemas in the request."
})
export type SavedTask = typeof SavedTask.Type

export const Release = Schema.Struct({
  id: ReleaseId.annotateKey({ description: "The release's ID." }),
  task_id: TaskId.annotateKey({ description: "The task." }),
  number: Schema.Int.annotateKey({ description: "The release's number in its task, from 1." }),
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
