import { Context, type Effect } from "effect"
import type { ComparisonCall } from "../../../domain/telemetry/ComparisonConventions.ts"
import type { ComparisonId, ExampleId, OrgId, TaskId } from "../../../domain/Ids.ts"

/**
 * The calls that were made for one example of a comparison, in the order in which they ended. Without their messages: those of all repeats
 * would stay in memory until the last one, and a prompt may have several MiB.
 */
export interface ExampleCalls {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly comparison_id: ComparisonId
  readonly example_id: ExampleId
  readonly calls: ReadonlyArray<ComparisonCall>
}

/**
 * A hook that is called when an example was compared, or interrupted after calls that were made. It must not fail, and must return quickly:
 * the comparison waits for it.
 */
export class ExampleCompared extends Context.Service<
  ExampleCompared,
  (example: ExampleCalls) => Effect.Effect<void>
>()("countersign/server/tasks/Comparisons/ExampleCompared") {}
