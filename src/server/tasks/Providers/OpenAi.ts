import { Context, Effect, Layer } from "effect"
import type { OpenAiProvider } from "../../../domain/tasks/Provider.ts"
import { chatRequest } from "./chatRequest.ts"
import { parseCompletion } from "./chatResponse.ts"
import { makeModelProvider, type ModelOptions } from "./makeModelProvider.ts"
import type { NoAnswer, ProviderAnswer, ProviderRequest } from "./ProviderRequest.ts"

/** Retries of calls to a model server that is busy or failing. */
export type OpenAiOptions = ModelOptions

/** Calls servers with OpenAI's chat completions API, also deployments of Azure OpenAI, within the egress rules for provider URLs. */
export class OpenAi extends Context.Service<
  OpenAi,
  {
    readonly answer: (request: ProviderRequest<OpenAiProvider>) => Effect.Effect<ProviderAnswer, NoAnswer>
  }
>()("countersign/server/tasks/Providers/OpenAi") {
  static readonly layer = (options: OpenAiOptions = {}) =>
    Layer.effect(
      OpenAi,
      Effect.map(
        makeModelProvider(
          { responseName: "chat completion", request: chatRequest, parse: parseCompletion },
          options
        ),
        (answer) => OpenAi.of({ answer })
      )
    )
}
