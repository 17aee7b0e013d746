import { Schema } from "effect"
import { JsonObject } from "./Dataset.ts"
import { DatasetId, ExampleId, ReleaseId, TaskId, TraceId } from "../Ids.ts"
import { Usage } from "./Provider.ts"
import { timestamp } from "../Time.ts"

export const UsedExample = Schema.Struct({
  id: ExampleId.annotateKey({ description: "The example's ID." }),
  score: Schema.Finite.annotateKey({
    description:
      "How near the example is to the input, by their words: 1 if they have the same words, 0 if they have none in common."
  })
}).annotate({ identifier: "UsedExample", description: "An example that an answer was made from." })
export type UsedExample = typeof UsedExample.Type

export const TaskRun = Schema.Struct({
  trace_id: TraceId.annotateKey({
    description:
      "The run's W3C trace ID, 32 lowercase hex digits; also in the header `x-svc-trace-id`. Feedback names the run by it, as `inference_log_id`."
  }),
  task_id: TaskId.annotateKey({ description: "The task." }),
  release_id: ReleaseId.annotateKey({ description: "The release that was live." }),
  dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description: "The dataset version of that release. Null if it has none."
  }),
  answer: JsonObject.annotateKey({ description: "The answer, valid against the task's answer schema." }),
  examples: Schema.Array(UsedExample).annotateKey({
    description:
      "Examples of the dataset version that the answer was made from, nearest first: the nearest example, or those in the model's prompt. Empty for a logged answer."
  }),
  usage: Usage.annotateKey({ description: "Tokens that the provider counted." }),
  created_at: timestamp("When the run started.")
}).annotate({
  identifier: "TaskRun",
  description: "A run of a task. It is logged before the response is sent."
})
export type TaskRun = typeof TaskRun.Type

/** A valid W3C Trace Context `traceparent` of version 00 (section 3.2). */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** The caller's span, or null if the header names none that is valid. A run starts its own trace and links to that span. */
export const parseTraceparent = (header: string | undefined): string | null =>
  header !== undefined && TRACEPARENT.test(header) ? header : null
