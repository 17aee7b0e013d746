import { Context, Effect, Layer } from "effect"
import type { AnthropicProvider } from "../../../domain/tasks/Provider.ts"
import { makeModelProvider, type ModelOptions } from "./makeModelProvider.ts"
import { messagesRequest } from "./messagesRequest.ts"
import { parseMessage } from "./messagesResponse.ts"
import type { NoAnswer, ProviderAnswer, ProviderRequest } from "./ProviderRequest.ts"

/** Calls servers with Anthropic's Messages API, within the egress rules for provider URLs. */
export class Anthropic extends Context.Service<
  Anthropic,
  {
    readonly answer: (request: ProviderRequest<AnthropicProvider>) => Effect.Effect<ProviderAnswer, NoAnswer>
  }
>()("countersign/server/tasks/Providers/Anthropic") {
  static readonly layer = (options: ModelOptions = {}) =>
    Layer.effect(
      Anthropic,
      Effect.map(
        makeModelProvider(
          { responseName: "message", request: messagesRequest, parse: parseMessage },
          options
        ),
        (answer) => Anthropic.of({ answer })
      )
    )
}
