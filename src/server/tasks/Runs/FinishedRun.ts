import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { DatasetId, OrgId, ReleaseId, RunId, SessionId, TaskId, TraceId } from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import type { Provider, Usage } from "../../../domain/tasks/Provider.ts"
import type { ModelCall, UsedExample } from "../../../domain/tasks/Run.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { ProviderCall } from "../Providers.ts"

/** A finished run, with everything that is logged of it. */
export interface FinishedRun {
  readonly org_id: OrgId
  readonly trace_id: TraceId
  readonly run_id: RunId
  readonly task_id: TaskId
  readonly task_name: string
  readonly release_id: ReleaseId
  readonly dataset_id: DatasetId | null
  readonly session_id: SessionId | null
  /** `provider`: a provider produced the answer. `logged`: the caller supplied it. */
  readonly source: "provider" | "logged"
  readonly input: JsonObject
  /** Null if the run failed. */
  readonly answer: JsonObject | null
  /** Whether the answer was read from a model's damaged JSON, or from a text around it. */
  readonly answer_repaired: boolean
  /** Why the run failed, as a sentence; null if it succeeded. */
  readonly failure: string | null
  readonly metadata: JsonObject
  /** The provider of the release, which answered unless the caller did. */
  readonly provider: Provider
  /** The examples that the answer was made from, nearest first; empty if the caller answered. */
  readonly examples: ReadonlyArray<UsedExample>
  /** The caller's report of the call that produced its answer; null if it reported nothing, or did not answer. */
  readonly answered_by: ModelCall | null
  readonly usage: Usage
  /** The calls to a model, in order; empty if the provider calls no model. */
  readonly calls: ReadonlyArray<ProviderCall>
  /** The caller's `traceparent`, which the run's trace links to. */
  readonly caller_traceparent: string | null
  /** The start of the run. */
  readonly created_at: Timestamp
  readonly duration_ms: number
  /** Whether the run is sampled for review. */
  readonly awaits_review: boolean
  readonly created_by: Actor
}
