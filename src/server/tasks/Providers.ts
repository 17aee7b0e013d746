import { Context, Effect, Layer } from "effect"
import { NearestExample } from "./Providers/NearestExample.ts"
import { OpenAi } from "./Providers/OpenAi.ts"
import type { NoAnswer, ProviderAnswer, ProviderRequest } from "./Providers/ProviderRequest.ts"

export {
  NoAnswer,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderRequest
} from "./Providers/ProviderRequest.ts"

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
      return Providers.of({
        answer: (request) => {
          const { provider } = request
          switch (provider.kind) {
            case "examples":
              return examples.answer({ ...request, provider })
            case "openai":
              return openai.answer({ ...request, provider })
          }
        }
      })
    })
  )
}
