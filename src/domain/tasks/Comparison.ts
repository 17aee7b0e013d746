import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { JsonObject } from "./Dataset.ts"
import { ComparisonId, DatasetId, ExampleId, ReleaseId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Provider } from "./Provider.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const Outcome = Schema.Struct({
  answer: Schema.NullOr(JsonObject).annotateKey({
    description: "The answer. Null if there is none; `failure` says why."
  }),
  agrees: Schema.Boolean.annotateKey({
    description:
      "Whether the answer equals the example's as JSON: in any order of keys, integers exactly, other numbers within a relative difference of 1e-6."
  }),
  disagreeing: Schema.Array(Schema.String).annotateKey({
    description: "Top-level fields that differ, are missing or are unexpected."
  }),
  failure: Schema.NullOr(Schema.String).annotateKey({
    description: "Why there is no answer, in one sentence. Null if there is one."
  }),
  input_tokens: Schema.Int.annotateKey({ description: "Input tokens that the provider counted." }),
  output_tokens: Schema.Int.annotateKey({ description: "Output tokens that the provider counted." }),
  cost: Schema.NullOr(Schema.Finite).annotateKey({
    description: "Cost by the provider's `price`, in its currency. Null if it has no price."
  }),
  duration_ms: Schema.Finite.annotateKey({ description: "How long the answer took, in milliseconds." })
}).annotate({ identifier: "Outcome", description: "The result of one side of a comparison for one example." })
export type Outcome = typeof Outcome.Type

export const ComparisonResult = Schema.Struct({
  example_id: ExampleId.annotateKey({ description: "The example's ID." }),
  input: JsonObject.annotateKey({ description: "The example's input." }),
  expected: JsonObject.annotateKey({ description: "The example's answer." }),
  candidate: Outcome.annotateKey({ description: "The candidate's answer." }),
  live: Outcome.annotateKey({ description: "The live release's answer." })
}).annotate({
  identifier: "ComparisonResult",
  description: "One example, answered by the candidate and by the live release."
})
export type ComparisonResult = typeof ComparisonResult.Type

const bounds = {
  low: Schema.Finite.annotateKey({ description: "Lower bound." }),
  high: Schema.Finite.annotateKey({ description: "Upper bound." })
}

const sideLatency = Schema.Struct({
  mean: Schema.Finite.annotateKey({ description: "Arithmetic mean." }),
  p50: Schema.Finite.annotateKey({ description: "Median, within 5 %." }),
  p95: Schema.Finite.annotateKey({ description: "95th percentile, within 5 %." })
})

export const SideSummary = Schema.Struct({
  agreed: Schema.Int.annotateKey({ description: "Examples whose answer agrees." }),
  agreement: Schema.NullOr(Schema.Finite).annotateKey({
    description:
      "Share of compared examples whose answer agrees, 0 to 1. A failure does not agree. Null before the first."
  }),
  agreement_interval: Schema.Struct(bounds).annotateKey({
    description: "95 % confidence interval of `agreement` (Wilson's score interval)."
  }),
  failed: Schema.Int.annotateKey({ description: "Examples without an answer." }),
  input_tokens: Schema.Int.annotateKey({ description: "Input tokens, added up." }),
  output_tokens: Schema.Int.annotateKey({ description: "Output tokens, added up." }),
  cost: Schema.NullOr(Schema.Finite).annotateKey({
    description: "Cost by the provider's `price`, added up, in its currency. Null if it has no price."
  }),
  latency_ms: Schema.NullOr(sideLatency).annotateKey({
    description:
      "How long the answers took, in milliseconds. Failures are left out. Null before the first answer."
  })
}).annotate({
  identifier: "SideSummary",
  description: "One side of a comparison, over all examples compared so far."
})
export type SideSummary = typeof SideSummary.Type

export const ComparisonSummary = Schema.Struct({
  candidate: SideSummary.annotateKey({ description: "The candidate's results." }),
  live: SideSummary.annotateKey({ description: "The live release's results." }),
  difference: Schema.Struct({
    value: Schema.Finite.annotateKey({ description: "The difference, -1 to 1." }),
    ...bounds
  }).annotateKey({
    description:
      "The candidate's agreement minus the live release's, with its 95 % confidence interval (Newcombe's method 10 for paired shares). If the interval lies wholly above 0, the candidate is better."
  }),
  fields: Schema.Array(
    Schema.Struct({
      field: Schema.String.annotateKey({ description: "Name of the field." }),
      compared: Schema.Int.annotateKey({
        description: "Examples that have the field, in an answer or as expected."
      }),
      candidate: Schema.Int.annotateKey({
        description: "Examples in which the candidate agrees in this field."
      }),
      live: Schema.Int.annotateKey({
        description: "Examples in which the live release agrees in this field."
      })
    })
  ).annotateKey({ description: "Agreement by top-level field of the answers. At most the first 100 fields." })
}).annotate({
  identifier: "ComparisonSummary",
  description: "Both sides of a comparison, over all examples compared so far."
})
export type ComparisonSummary = typeof ComparisonSummary.Type

export const ComparisonStatus = documentedEnum({
  running: "Examples are still being answered.",
  completed: "Every example was answered by both sides. Final.",
  failed: "It ended after repeated internal errors; `failure` says so. Final. Start another one to retry.",
  cancelled: "It was cancelled before every example was answered; `failure` says by whom. Final."
})

export const Comparison = Schema.Struct({
  id: ComparisonId.annotateKey({ description: "The comparison's ID." }),
  task_id: TaskId.annotateKey({ description: "The task." }),
  status: ComparisonStatus.annotateKey({ description: "The comparison's status." }),
  candidate: Schema.Struct({
    instructions: Schema.String.annotateKey({ description: "The candidate's instructions." }),
    provider: Provider.annotateKey({ description: "The candidate's provider." }),
    dataset_id: Schema.NullOr(DatasetId).annotateKey({
      description:
        "The dataset version that the `examples` provider of the candidate answers from. Null if the task had none."
    })
  }).annotateKey({ description: "The configuration that is tried." }),
  live_release_id: ReleaseId.annotateKey({
    description: "The release that was live when the comparison started."
  }),
  dataset_id: DatasetId.annotateKey({
    description:
      "The dataset version whose examples both sides answer: the newest when the comparison started."
  }),
  example_count: Schema.Int.annotateKey({ description: "Number of examples to compare." }),
  compared: Schema.Int.annotateKey({ description: "Number of examples that both sides have answered." }),
  summary: ComparisonSummary.annotateKey({ description: "The results so far." }),
  created_at: timestamp("When the comparison was started."),
  created_by: Actor.annotateKey({ description: "The API key that started it." }),
  finished_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it completed, failed or was cancelled. Null while it is running."
  }),
  failure: Schema.NullOr(Schema.String).annotateKey({
    description: "Why it ended early. Null unless the status is `failed` or `cancelled`."
  })
}).annotate({
  identifier: "Comparison",
  description: "A candidate compared with the live release over one dataset version."
})
export type Comparison = typeof Comparison.Type
