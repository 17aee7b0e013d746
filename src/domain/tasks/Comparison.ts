import { Schema } from "effect"
import { JsonObject } from "./Dataset.ts"
import { ComparisonId, DatasetId, ExampleId, ReleaseId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Provider } from "./Provider.ts"
import { Timestamp } from "../Time.ts"

/** What one side made of one example. */
export const Outcome = Schema.Struct({
  /** Null where it failed. */
  answer: Schema.NullOr(JsonObject),
  /** Whether the answer is the example's: as JSON, whatever the order of keys, whole numbers exactly, others within a millionth. */
  agrees: Schema.Boolean,
  /** Top-level fields that differ, are missing, or are too many. */
  disagreeing: Schema.Array(Schema.String),
  /** Why there is no answer, in a sentence. */
  failure: Schema.NullOr(Schema.String),
  input_tokens: Schema.Int,
  output_tokens: Schema.Int,
  /** By the provider's price; null where it has none. */
  cost: Schema.NullOr(Schema.Finite),
  duration_ms: Schema.Finite
}).annotate({ identifier: "Outcome" })
export type Outcome = typeof Outcome.Type

/** One example, answered by both. */
export const ComparisonResult = Schema.Struct({
  example_id: ExampleId,
  input: JsonObject,
  /** The example's answer. */
  expected: JsonObject,
  candidate: Outcome,
  live: Outcome
}).annotate({ identifier: "ComparisonResult" })
export type ComparisonResult = typeof ComparisonResult.Type

/** Where a figure lies, with 95 % confidence. */
const Interval = Schema.Struct({ low: Schema.Finite, high: Schema.Finite })

/** What one side made of all examples so far. */
export const SideSummary = Schema.Struct({
  agreed: Schema.Int,
  /** The share of examples that it agrees with; failures do not. Null before the first. */
  agreement: Schema.NullOr(Schema.Finite),
  /** Wilson's score interval. */
  agreement_interval: Interval,
  failed: Schema.Int,
  input_tokens: Schema.Int,
  output_tokens: Schema.Int,
  cost: Schema.NullOr(Schema.Finite),
  /** Of answers that came; percentiles to within a twentieth. Null before the first. */
  latency_ms: Schema.NullOr(Schema.Struct({ mean: Schema.Finite, p50: Schema.Finite, p95: Schema.Finite }))
}).annotate({ identifier: "SideSummary" })
export type SideSummary = typeof SideSummary.Type

/** Both sides, added up over the examples compared so far. */
export const ComparisonSummary = Schema.Struct({
  candidate: SideSummary,
  live: SideSummary,
  /** Candidate less live, with the interval of paired shares by Newcombe's method 10: wholly above zero, the candidate is better. */
  difference: Schema.Struct({ value: Schema.Finite, ...Interval.fields }),
  /** Top-level fields of the answers, at most 100, with how often each side agrees in them. */
  fields: Schema.Array(
    Schema.Struct({
      field: Schema.String,
      compared: Schema.Int,
      candidate: Schema.Int,
      live: Schema.Int
    })
  )
}).annotate({ identifier: "ComparisonSummary" })
export type ComparisonSummary = typeof ComparisonSummary.Type

/** Whether a comparison is still at work. */
export const ComparisonStatus = Schema.Literals(["running", "completed"])

/** A candidate against the live release, over one version of the dataset. */
export const Comparison = Schema.Struct({
  id: ComparisonId,
  task_id: TaskId,
  status: ComparisonStatus,
  candidate: Schema.Struct({
    instructions: Schema.String,
    provider: Provider,
    dataset_id: Schema.NullOr(DatasetId)
  }),
  live_release_id: ReleaseId,
  /** The version whose examples both answer: the newest when the comparison was asked for. */
  dataset_id: DatasetId,
  example_count: Schema.Int,
  /** How many of them both have answered. */
  compared: Schema.Int,
  summary: ComparisonSummary,
  created_at: Timestamp,
  created_by: Actor,
  finished_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "Comparison" })
export type Comparison = typeof Comparison.Type
