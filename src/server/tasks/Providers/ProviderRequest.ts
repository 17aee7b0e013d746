import { Data, type Effect } from "effect"
import type { UsedExample } from "../../../domain/tasks/Run.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { HoldOut } from "../../../domain/tasks/HoldOut.ts"
import type { DatasetId, OrgId, TaskId } from "../../../domain/Ids.ts"
import type { Provider, Usage } from "../../../domain/tasks/Provider.ts"
import type { ProviderFailureReason } from "../../../domain/tasks/ProviderFailure.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { ModelResponse } from "../../../domain/telemetry/SpanConventions.ts"

/** A request to a provider for one answer. */
export interface ProviderRequest<P extends Provider = Provider> {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly provider: P
  readonly instructions: string
  /** Whether variables of the instructions are replaced by values of the input. Default true. */
  readonly hasVariables?: boolean
  /** The release's dataset version. */
  readonly dataset_id: DatasetId | null
  readonly input: JsonObject
  /** In a comparison, the examples that must not be seen. Default: none. */
  readonly holdOut?: HoldOut
  /** The task's answer schema. */
  readonly answer: {
    readonly compiled: CompiledSchema
    /** The schema as JSON. Read only by providers that send it to a model. */
    readonly schema: Effect.Effect<JsonSchema>
  }
  /** Returns the `traceparent` of a call, numbered from 0, if the provider's settings ask for one. Default: none is sent. */
  readonly traceparent?: (call: number) => string
  /** Called when a call to a model ends, so that its usage is known even if the request is interrupted later. */
  readonly onCall?: (call: ProviderCall) => void
}

/** A message of a request to a model. */
export interface PromptMessage {
  readonly role: string
  readonly content: string
}

/** One call to a model, successful or not: a span of the run. */
export interface ProviderCall {
  readonly started_at: Timestamp
  readonly duration_ms: number
  readonly usage: Usage
  /** The messages of the request, for spans with content. Calls with the same messages share the array. */
  readonly messages: ReadonlyArray<PromptMessage>
  /** Null without a readable completion. */
  readonly response: ModelResponse | null
  /** Null if the server did not respond. */
  readonly http_status: number | null
  /** Null if the response is a readable completion. */
  readonly failure: string | null
  /** The kind of failure; null if there is none. */
  readonly reason: ProviderFailureReason | null
}

/** An answer that matches the task's answer schema. */
export interface ProviderAnswer {
  readonly answer: JsonObject
  /** Whether the answer was read from damaged JSON, or from a text around it, without another call. Default false. */
  readonly repaired?: boolean
  readonly usage: Usage
  readonly calls: ReadonlyArray<ProviderCall>
  /** The examples of the release's dataset version that the answer was made from, nearest first. */
  readonly examples: ReadonlyArray<UsedExample>
}

/** The provider has no answer. `detail` is a sentence of this service and contains nothing that the model server sent. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{
  readonly reason: ProviderFailureReason
  readonly detail: string
  readonly usage: Usage
  readonly calls: ReadonlyArray<ProviderCall>
  /** The examples that the provider used. */
  readonly examples: ReadonlyArray<UsedExample>
}> {}
