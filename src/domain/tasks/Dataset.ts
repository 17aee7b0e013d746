import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { DatasetId, ExampleId, FeedbackId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { timestamp } from "../Time.ts"

/** A task's input or answer: a JSON object that matches the task's input or answer schema. */
export const JsonObject = Schema.Record(Schema.String, JsonValue)
export type JsonObject = typeof JsonObject.Type

export const Dataset = Schema.Struct({
  id: DatasetId.annotateKey({ description: "The dataset version's ID." }),
  task_id: TaskId.annotateKey({ description: "The task whose dataset this is a version of." }),
  version: Schema.Int.annotateKey({
    description: "Version number: 1 for the task's first, then one more each time."
  }),
  base_dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description: "The version that this one was made from. Null for the first."
  }),
  example_count: Schema.Int.annotateKey({ description: "Number of examples in this version." }),
  examples_erased: Schema.Int.annotateKey({
    description:
      "Examples of this version that were erased since, because their run, their feedback or its data subject was. They are not part of `example_count`, of lists and of exports."
  }),
  content_digest: Schema.String.annotateKey({
    description:
      "Digest of the examples, as 64 lowercase hex digits. Versions with equal content have equal digests, whatever order the examples were added in. It includes erased examples: it never changes."
  }),
  created_at: timestamp("When the version was created."),
  created_by: Actor.annotateKey({ description: "The API key that created the version." })
}).annotate({
  identifier: "Dataset",
  description:
    "One version of a task's dataset. A version never changes, except that examples of it can be erased; a change of its examples makes the next version."
})
export type Dataset = typeof Dataset.Type

export const CreatedDataset = Schema.Struct({
  ...Dataset.fields,
  examples_added: Schema.Int.annotateKey({
    description: "Examples of the request whose input is new to the dataset."
  }),
  examples_replaced: Schema.Int.annotateKey({
    description: "Examples of the request that replaced one with the same input."
  }),
  examples_removed: Schema.Int.annotateKey({ description: "Examples of the base that were removed." }),
  examples_repeated: Schema.Int.annotateKey({
    description:
      "Examples of the request that were left out, because a later one has the same input: a version has one example per input."
  }),
  redaction_warning: Schema.optionalKey(Schema.String).annotateKey({
    description: "Present if protected values were removed from the examples: names the fields."
  })
}).annotate({
  identifier: "CreatedDataset",
  description: "The dataset version that was created."
})
export type CreatedDataset = typeof CreatedDataset.Type

export const ExampleOrigin = documentedEnum({
  correction: "Its answer corrects that of a run.",
  confirmed: "A person confirmed a run's answer: see `confirmRun`.",
  import: "It was imported from a file.",
  made: "It was added through the API."
})
export type ExampleOrigin = typeof ExampleOrigin.Type

export const Example = Schema.Struct({
  id: ExampleId.annotateKey({ description: "The example's ID." }),
  input: JsonObject.annotateKey({ description: "An input, valid against the task's input schema." }),
  answer: JsonObject.annotateKey({
    description: "The right answer to it, valid against the task's answer schema."
  }),
  source_feedback_id: Schema.NullOr(FeedbackId).annotateKey({
    description: "The feedback whose correction this example is. Null if it was added directly."
  }),
  origin: ExampleOrigin.annotateKey({ description: "Where the example comes from." }),
  redaction_warning: Schema.optionalKey(Schema.String).annotateKey({
    description: "In exports, if protected values were removed from this example: names the fields."
  })
}).annotate({
  identifier: "Example",
  description:
    "An input with its right answer. An example never changes; a correction replaces it with a new one."
})
export type Example = typeof Example.Type

/** An example before it is stored. */
export interface NewExample {
  readonly input: JsonObject
  readonly answer: JsonObject
  readonly source_feedback_id: FeedbackId | null
  readonly origin: ExampleOrigin
}
