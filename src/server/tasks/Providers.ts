import { Context, Effect, Layer } from "effect"
import { providerAnswers, providerCalls } from "../observability/metricDefinitions.ts"
import { ProviderFailureReason } from "../../domain/tasks/ProviderFailure.ts"
import { Anthropic } from "./Providers/Anthropic.ts"
import { NearestExample } from "./Providers/NearestExample.ts"
import { OpenAi } from "./Providers/OpenAi.ts"
import type { NoAnswer, ProviderAnswer, ProviderCall, ProviderRequest } from "./Providers/ProviderRequest.ts"

export {
  NoAnswer,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderRequest
} from "./Providers/ProviderRequest.ts"

const exampleOutcomes = ["answered", "no_example", "no_near_example", "cancelled"]
const modelOutcomes = [
  "answered",
  ...ProviderFailureReason.literals.filter((reason) => !["no_example", "no_near_example"].includes(reason))
]

/** Answers runs by the kind of the task's provider. Each kind has its own service, which a test can replace. */
export class Providers extends Context.Service<
  Providers,
  {
    /** Returns an answer that matches the answer schema, or fails. Ends within the provider's timeout. */
    readonly answer: (request: ProviderRequest) => Effect.Effect<ProviderAnswer, NoAnswer>
  }
>()("countersign/server/tasks/Providers") {
  static readonly layer = Layer.effect(
    Providers,
    Effect.gen(function* () {
      const examples = yield* NearestExample
      const openai = yield* OpenAi
      const anthropic = yield* Anthropic
      const context = yield* Effect.context<never>()
      // Prometheus sees an increase only from an existing value, so the counters exist before their first increment.
      for (const outcome of exampleOutcomes) providerAnswers("examples", outcome).updateUnsafe(0, context)
      for (const kind of ["openai", "anthropic"]) {
        // Counted without a call if the dataset version of the prompt's examples was deleted.
        providerAnswers(kind, "no_example").updateUnsafe(0, context)
        for (const outcome of modelOutcomes) {
          providerAnswers(kind, outcome).updateUnsafe(0, context)
          providerCalls(kind, outcome).updateUnsafe(0, context)
        }
      }

      const answerByKind = (request: ProviderRequest) => {
        const { provider } = request
        switch (provider.kind) {
          case "examples":
            return examples.answer({ ...request, provider })
          case "openai":
            return openai.answer({ ...request, provider })
          case "anthropic":
            return anthropic.answer({ ...request, provider })
        }
      }

      return Providers.of({
        answer: (request) => {
          const { kind } = request.provider
          const count = (outcome: string) =>
            Effect.sync(() => providerAnswers(kind, outcome).updateUnsafe(1, context))
          const onCall = (call: ProviderCall) => {
            providerCalls(kind, call.reason ?? "answered").updateUnsafe(1, context)
            request.onCall?.(call)
          }
          return answerByKind({ ...request, onCall }).pipe(
            Effect.tap(() => count("answered")),
            Effect.tapErrorTag("NoAnswer", ({ reason }) => count(reason)),
            Effect.onInterrupt(() => count("cancelled"))
          )
        }
      })
    })
  )
}
