import { Data, type Effect } from "effect"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { DatasetId, OrgId, TaskId } from "../../../domain/Ids.ts"
import type { Provider, Usage } from "../../../domain/tasks/Provider.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import type { Timestamp } from "../../../domain/Time.ts"

/** What a provider is asked. */
export interface ProviderRequest<P extends Provider = Provider> {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly provider: P
  readonly instructions: string
  /** The release's dataset. */
  readonly dataset_id: DatasetId | null
  readonly input: JsonObject
  readonly answer: {
    readonly shape: CompiledSchema
    /** Read only where a provider is told the schema. */
    readonly schema: Effect.Effect<JsonSchema>
  }
  /** Hears of each call as it ends: what was spent is known also where nobody waits for the answer to its end. */
  readonly onCall?: (call: ProviderCall) => void
}

/** One call to a model, whatever came of it: a span of the run. */
export interface ProviderCall {
  readonly started_at: Timestamp
  readonly duration_ms: number
  readonly usage: Usage
  /** Null where the server did not answer. */
  readonly http_status: number | null
  /** Null where it answered with what can be read. */
  readonly failure: string | null
}

/** An answer in the task's shape. */
export interface ProviderAnswer {
  readonly answer: JsonObject
  readonly usage: Usage
  readonly calls: ReadonlyArray<ProviderCall>
}

/** There is no answer, and why: a sentence of ours, with nothing in it of what the server said. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{
  readonly detail: string
  readonly usage: Usage
  readonly calls: ReadonlyArray<ProviderCall>
}> {}
