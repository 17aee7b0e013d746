import { Context, type Effect } from "effect"
import type { ComparisonCall } from "../../../domain/telemetry/ComparisonConventions.ts"
import type { ComparisonId, ExampleId, OrgId, TaskId } from "../../../domain/Ids.ts"
import type { Provider } from "../../../domain/tasks/Provider.ts"
import type { ProviderCall } from "../Providers.ts"

/** A call to a model in a comparison. */
export interface ExampleCall extends Pick<ComparisonCall, "side" | "role"> {
  readonly provider: Provider
  readonly call: ProviderCall
}

/** The calls that were made for one example of a comparison, in the order in which they ended. */
export interface ExampleCalls {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly comparison_id: ComparisonId
  readonly example_id: ExampleId
  readonly calls: ReadonlyArray<ExampleCall>
}

/**
 * A hook that is called when an example was compared, or interrupted after calls that were made. It must not fail, and must return quickly:
 * the comparison waits for it.
 */
export class ExampleCompared extends Context.Service<
  ExampleCompared,
  (example: ExampleCalls) => Effect.Effect<void>
>()("countersign/server/tasks/Comparisons/ExampleCompared") {}
