import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { Budget, Spent } from "./Budget.ts"
import { ExampleOrigin, JsonObject } from "./Dataset.ts"
import { Evaluators } from "./Evaluator.ts"
import { HoldOut } from "./HoldOut.ts"
import { ComparisonId, DatasetId, ExampleId, ReleaseId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Judge, Verdict } from "./Judge.ts"
import { Provider } from "./Provider.ts"
import { UsedExample } from "./Run.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const Outcome = Schema.Struct({
  answer: Schema.NullOr(JsonObject).annotateKey({
    description:
      "The answer. Null if there is none; `failure` says why. Also null without the scope `datasets.read`; `failure` is then null."
  }),
  agrees: Schema.Boolean.annotateKey({
    description:
      "Whether the answer agrees with the example's in every field, by the comparison's evaluators, or by its judge."
  }),
  disagreeing: Schema.Array(Schema.String).annotateKey({
    description: "Top-level fields that differ by the evaluators, are missing or are unexpected."
  }),
  score: Schema.NullOr(Schema.Finite).annotateKey({
    description:
      "Share of the top-level fields that agree by the evaluators, by their weights, 0 to 1. 0 without an answer."
  }),
  agreed_repeats: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "How many of the repeated answers agree. The other members are those of the first answer. Absent without repeats."
  }),
  verdict: Schema.NullOr(Verdict).annotateKey({
    description: "The judge's verdict. Null if the answer was not judged."
  }),
  failure: Schema.NullOr(Schema.String).annotateKey({
    description: "Why there is no answer, in one sentence. Null if there is one."
  }),
  examples: Schema.Array(UsedExample).annotateKey({
    description: "The examples that the answer was made from, nearest first, with their scores."
  }),
  input_tokens: Schema.NullOr(Schema.Int).annotateKey({
    description: "Input tokens that the provider counted. Null if it did not report them."
  }),
  output_tokens: Schema.NullOr(Schema.Int).annotateKey({
    description: "Output tokens that the provider counted. Null if it did not report them."
  }),
  cost: Schema.NullOr(Schema.Finite).annotateKey({
    description:
      "Cost by the provider's `price`, in its currency. Null if it has no price, or did not report the tokens."
  }),
  duration_ms: Schema.Finite.annotateKey({ description: "How long the answer took, in milliseconds." })
}).annotate({ identifier: "Outcome", description: "The result of one side of a comparison for one example." })
export type Outcome = typeof Outcome.Type

export const ComparisonVerdict = documentedEnum({
  win: "Only the candidate agrees.",
  regression: "Only the live release agrees.",
  both_agree: "Both sides agree.",
  neither_agrees: "Neither side agrees."
})
export type ComparisonVerdict = typeof ComparisonVerdict.Type

export const ComparisonResult = Schema.Struct({
  example_id: ExampleId.annotateKey({ description: "The example's ID." }),
  origin: ExampleOrigin.annotateKey({ description: "Where the example comes from." }),
  input: Schema.NullOr(JsonObject).annotateKey({
    description: "The example's input. Null without the scope `datasets.read`."
  }),
  expected: Schema.NullOr(JsonObject).annotateKey({
    description: "The example's answer. Null without the scope `datasets.read`."
  }),
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
  agreed: Schema.Int.annotateKey({
    description: "Examples whose answer agrees; with repeats, the first answer."
  }),
  agreement: Schema.NullOr(Schema.Finite).annotateKey({
    description:
      "Share of compared examples whose answer agrees, 0 to 1; with repeats, of all answers. A failure does not agree. Null before the first."
  }),
  agreement_interval: Schema.Struct(bounds).annotateKey({
    description:
      "95 % confidence interval of `agreement` (Wilson's score interval; with repeats, for as many independent answers as have the variance that was seen between the examples)."
  }),
  repeats: Schema.NullOr(
    Schema.Struct({
      unstable: Schema.Int.annotateKey({
        description: "Examples on which some of the repeated answers agree and others do not."
      }),
      variance: Schema.NullOr(Schema.Finite).annotateKey({
        description:
          "The model's own variance: that of the agreement between answers to the same example, 0 to 0.5, as a mean over the examples. Null before the first."
      })
    })
  ).annotateKey({ description: "How much the repeated answers differ. Null without repeats." }),
  score: Schema.NullOr(Schema.Finite).annotateKey({
    description: "Mean `score` of the compared examples, 0 to 1. Null before the first."
  }),
  failed: Schema.Int.annotateKey({ description: "Failed answers: of examples, or of their repeats." }),
  input_tokens: Schema.Int.annotateKey({
    description: "Input tokens, added up as far as the provider reported them."
  }),
  output_tokens: Schema.Int.annotateKey({
    description: "Output tokens, added up as far as the provider reported them."
  }),
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

export const JudgeSummary = Schema.Struct({
  judged: Schema.Int.annotateKey({ description: "Answers that the judge was asked about." }),
  agreed: Schema.Int.annotateKey({ description: "Those of them that agree." }),
  failed: Schema.Int.annotateKey({
    description: "Those of them without a verdict, because the judge failed."
  })
}).annotate({ identifier: "JudgeSummary", description: "The judge's verdicts on the answers of both sides." })

export const VerdictCounts = Schema.Struct({
  win: Schema.Int.annotateKey({ description: "Only the candidate agrees." }),
  regression: Schema.Int.annotateKey({ description: "Only the live release agrees." }),
  both_agree: Schema.Int.annotateKey({ description: "Both sides agree." }),
  neither_agrees: Schema.Int.annotateKey({ description: "Neither side agrees." })
}).annotate({ identifier: "VerdictCounts", description: "Compared examples by their verdict." })

export const ComparisonSummary = Schema.Struct({
  candidate: SideSummary.annotateKey({ description: "The candidate's results." }),
  live: SideSummary.annotateKey({ description: "The live release's results." }),
  verdicts: VerdictCounts.annotateKey({
    description: "The number of compared examples of each `verdict`."
  }),
  difference: Schema.Struct({
    value: Schema.Finite.annotateKey({ description: "The difference, -1 to 1." }),
    ...bounds
  }).annotateKey({
    description:
      "The candidate's agreement minus the live release's, with its 95 % confidence interval (Newcombe's method 10 for paired shares; with repeats, the same method with the intervals of both sides and the correlation of their shares). If the interval lies wholly above 0, the candidate is better."
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
  ).annotateKey({
    description:
      "Agreement by top-level field of the answers, by the evaluators, without ignored fields. At most the first 100 fields."
  }),
  origins: Schema.Array(
    Schema.Struct({
      origin: ExampleOrigin.annotateKey({ description: "Where the examples come from." }),
      compared: Schema.Int.annotateKey({ description: "Compared examples of this origin." }),
      candidate: Schema.Int.annotateKey({ description: "Those of them on which the candidate agrees." }),
      live: Schema.Int.annotateKey({ description: "Those of them on which the live release agrees." })
    })
  ).annotateKey({ description: "Agreement by the origin of the examples." }),
  warning: Schema.NullOr(Schema.String).annotateKey({
    description:
      "Why the agreement is not that on all inputs, if most compared examples are corrections: a release answered each of them wrong. Null if not."
  }),
  judge: Schema.NullOr(JudgeSummary).annotateKey({
    description: "The judge's verdicts. Null without a judge."
  })
}).annotate({
  identifier: "ComparisonSummary",
  description: "Both sides of a comparison, over all examples compared so far."
})
export type ComparisonSummary = typeof ComparisonSummary.Type

export const ComparisonStatus = documentedEnum({
  running: "Examples are still being answered.",
  completed: "Every example was answered by both sides. Final.",
  failed:
    "It ended early, because it spent its budget, or after repeated internal errors; `failure` says which. Final.",
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
        "The dataset version that the candidate answers from or sees examples of. Null if the task had none."
    })
  }).annotateKey({ description: "The configuration that is tried." }),
  live_release_id: ReleaseId.annotateKey({
    description: "The release that was live when the comparison started."
  }),
  dataset_id: DatasetId.annotateKey({
    description:
      "The dataset version whose examples both sides answer: the newest when the comparison started, or the benchmark."
  }),
  hold_out: HoldOut.annotateKey({
    description:
      "Which examples the sides answer, and which ones they must not see. With `none`, an example may have been answered from itself."
  }),
  evaluators: Evaluators.annotateKey({
    description: "How values of the answers are compared, by JSON pointer. Others are compared as `equal`."
  }),
  judge: Schema.NullOr(Judge).annotateKey({ description: "What judges answers that differ. Null: nothing." }),
  repeats: Schema.Int.annotateKey({ description: "How often each side answers each example." }),
  budget: Budget.annotateKey({ description: "Limits of its spending." }),
  spent: Spent.annotateKey({ description: "Its spending so far." }),
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
