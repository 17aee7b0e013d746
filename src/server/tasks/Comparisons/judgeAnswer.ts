import { Effect } from "effect"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import type { Example, JsonObject } from "../../../domain/tasks/Dataset.ts"
import { type Judge, MAX_REASON, type Verdict, verdictSchema } from "../../../domain/tasks/Judge.ts"
import type { ProviderCall, Providers } from "../Providers.ts"
import type { ExampleSpending } from "./Spending.ts"
import type { ComparisonRow } from "./rows.ts"

/** A judge that is ready to be asked. */
export interface ReadyJudge extends Judge {
  /** The compiled schema of its verdicts. */
  readonly compiled: CompiledSchema
}

/** Asks the judge about one answer. It sees neither which side answered nor the other side's answer. */
export const judgeAnswer = (
  providers: Providers["Service"],
  { org_id, task_id }: ComparisonRow,
  { compiled, instructions, provider }: ReadyJudge,
  example: Example,
  answer: JsonObject,
  spending: ExampleSpending,
  onCall: (call: ProviderCall) => void
): Effect.Effect<Verdict> => {
  const calls: Array<ProviderCall> = []
  return providers
    .answer({
      org_id,
      task_id,
      provider,
      instructions,
      dataset_id: null,
      input: { input: example.input, expected: example.answer, answer },
      answer: { compiled, schema: Effect.succeed(verdictSchema) },
      onCall: (call) => {
        calls.push(call)
        onCall(call)
      }
    })
    .pipe(
      Effect.onInterrupt(() => Effect.sync(() => spending.add(provider, calls))),
      Effect.tap(({ calls }) => Effect.sync(() => spending.add(provider, calls))),
      Effect.tapError(({ calls }) => Effect.sync(() => spending.add(provider, calls))),
      Effect.map(({ answer }) => toVerdict(answer)),
      Effect.catchTag("NoAnswer", ({ detail }) =>
        Effect.succeed<Verdict>({ agrees: false, reason: "", failure: detail })
      )
    )
}

const toVerdict = ({ agrees, reason }: JsonObject): Verdict => ({
  agrees: agrees === true,
  reason: typeof reason === "string" ? reason.slice(0, MAX_REASON).toWellFormed() : "",
  failure: null
})
