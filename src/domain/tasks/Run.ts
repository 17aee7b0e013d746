import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { Actor } from "../identity/Principal.ts"
import { JsonObject } from "./Dataset.ts"
import { DatasetId, ExampleId, ReleaseId, SessionId, TaskId, TraceId } from "../Ids.ts"
import { MAX_TOKENS, Usage } from "./Provider.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const UsedExample = Schema.Struct({
  id: ExampleId.annotateKey({ description: "The example's ID." }),
  score: Schema.Finite.annotateKey({
    description:
      "How near the example is to the input, by their words and parts of words: 1 if it has the same input, 0 if they have nothing in common."
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

/** Longest name of a provider or model that a client reports. */
const MAX_NAME_LENGTH = 200

const reportedTokens = (kind: string) =>
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_TOKENS })).annotateKey({
    description: `${kind} tokens.`
  })

export const ModelCall = Schema.Struct({
  provider: Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_NAME_LENGTH))
  ).annotateKey({
    description: "The provider that you called, such as `anthropic`. 1 to 200 characters. Default unknown."
  }),
  model: Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_NAME_LENGTH))
  ).annotateKey({ description: "The model that answered. 1 to 200 characters. Default unknown." }),
  usage: Schema.optionalKey(
    Schema.Struct({
      input_tokens: reportedTokens("Input"),
      output_tokens: reportedTokens("Output")
    })
  ).annotateKey({ description: "Tokens that the provider counted. Default unknown." }),
  started_at: Schema.optionalKey(timestamp("When the call started. Default unknown.")),
  duration_ms: Schema.optionalKey(
    Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 86_400_000 }))
  ).annotateKey({ description: "How long the call took, in milliseconds, at most a day. Default unknown." })
}).annotate({
  identifier: "ModelCall",
  description: "The call to a model by which a client got the answer that it logs."
})
export type ModelCall = typeof ModelCall.Type

export const RunSource = documentedEnum({
  provider: "The release's provider answered.",
  logged: "The client supplied the answer."
})
export type RunSource = typeof RunSource.Type

export const RunStatus = documentedEnum({
  succeeded: "The run has an answer.",
  failed: "The run has no answer; `failure` says why."
})
export type RunStatus = typeof RunStatus.Type

export const RunOrigin = Schema.Struct({
  release_id: ReleaseId.annotateKey({
    description:
      "The release that answered. If `source` is `logged`: the release that was live when the answer was logged."
  }),
  dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description: "The dataset version of that release. Null if it has none."
  }),
  source: RunSource.annotateKey({ description: "Who answered." }),
  status: RunStatus.annotateKey({ description: "Whether the run has an answer." }),
  failure: Schema.NullOr(Schema.String).annotateKey({
    description: "Why the run failed. Null if it succeeded."
  }),
  provider: Schema.NullOr(Schema.String).annotateKey({
    description:
      "The kind of provider that was called, or the provider that the client reported. Null if unknown."
  }),
  model: Schema.NullOr(Schema.String).annotateKey({
    description: "The model that was called, or that the client reported. Null if unknown."
  }),
  usage: Schema.NullOr(Usage).annotateKey({
    description: "Tokens that the provider counted, or that the client reported. Null if unknown."
  }),
  examples: Schema.Array(UsedExample).annotateKey({
    description: "The examples that the answer was made from, nearest first. Empty for a logged answer."
  }),
  provider_calls: Schema.Int.annotateKey({
    description: "Calls of the service to the provider, retries included. 0 for a logged answer."
  }),
  answer_repaired: Schema.Boolean.annotateKey({
    description:
      "Whether the answer was read from damaged JSON of the model, or from a text around it: a comma after the last member, JSON within a JSON string, a fenced block or a sentence. It took no further call, and matches the answer schema."
  }),
  duration_ms: Schema.NullOr(Schema.Finite).annotateKey({
    description: "How long the answer took, in milliseconds. Null if the client logged it without."
  }),
  started_at: Schema.NullOr(Timestamp).annotateKey({
    description:
      "When the client's call to the model started. Null unless the client logged the answer with it."
  }),
  created_at: timestamp("When the run started, or when the client's answer was logged.")
}).annotate({ identifier: "RunOrigin", description: "What answered a run." })
export type RunOrigin = typeof RunOrigin.Type

export const RunRecord = Schema.Struct({
  trace_id: TraceId.annotateKey({
    description: "The run's ID: its W3C trace ID. Feedback names the run by it, as `inference_log_id`."
  }),
  task_id: TaskId.annotateKey({ description: "The task." }),
  input: JsonObject.annotateKey({ description: "The input." }),
  answer: Schema.NullOr(JsonObject).annotateKey({ description: "The answer. Null if the run failed." }),
  ...RunOrigin.fields,
  session_id: Schema.NullOr(SessionId).annotateKey({
    description: "The agent session that the run belongs to. Null if none."
  }),
  metadata: JsonObject.annotateKey({ description: "The client's own data." }),
  created_by: Actor.annotateKey({ description: "The API key that ran the task." }),
  awaits_review: Schema.Boolean.annotateKey({
    description:
      "Whether the run is in the task's review queue: it was sampled for review, and nobody has given feedback on it or dismissed it."
  })
}).annotate({ identifier: "Run", description: "A logged run." })
export type RunRecord = typeof RunRecord.Type

/** A valid W3C Trace Context `traceparent` of version 00 (section 3.2). */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** One of a later version, which begins with the members of version 00 and may have more. Version ff is none. */
const LATER_TRACEPARENT = /^(?!00|ff)[0-9a-f]{2}(-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(?:-.*)?$/

/**
 * The caller's span as version 00, or null if the header names none that is valid. A run starts its own trace and links to that span.
 */
export const parseTraceparent = (header: string | undefined): string | null => {
  const text = header?.replace(LATER_TRACEPARENT, "00$1")
  return text !== undefined && TRACEPARENT.test(text) ? text : null
}
