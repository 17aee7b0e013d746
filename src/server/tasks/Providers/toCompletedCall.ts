import type { Provider } from "../../../domain/tasks/Provider.ts"
import { genAiProviderName } from "../../../domain/telemetry/genAiProviderName.ts"
import type { CompletedProviderCall } from "../../../domain/telemetry/SpanConventions.ts"
import type { ProviderCall } from "./ProviderRequest.ts"

/** A call to a model as spans show it, without its messages. */
export const toCompletedCall = (
  provider: Provider,
  call: ProviderCall
): Omit<CompletedProviderCall, "prompt"> => ({
  provider: genAiProviderName(provider),
  model: provider.model,
  ...requestOf(provider),
  start: call.started_at.epochMilliseconds,
  end: call.started_at.epochMilliseconds + call.duration_ms,
  response: call.response,
  error_type: errorType(call)
})

/** The parameters of a request, and the server that it is sent to. */
const requestOf = (
  provider: Provider
): Pick<CompletedProviderCall, "max_tokens" | "seed" | "server" | "temperature" | "top_p"> =>
  provider.kind === "examples"
    ? { max_tokens: null, seed: null, server: null, temperature: null, top_p: null }
    : {
        max_tokens: provider.max_tokens,
        seed: provider.kind === "openai" ? provider.seed : null,
        server: serverOf(provider.base_url),
        temperature: provider.temperature,
        top_p: provider.top_p
      }

const serverOf = (base_url: string): CompletedProviderCall["server"] => {
  const url = URL.parse(base_url)
  if (url === null) return null
  const port = url.port === "" ? (url.protocol === "http:" ? 80 : 443) : Number(url.port)
  // Without the brackets of an IPv6 address.
  return { address: url.hostname.replace(/^\[|\]$/g, ""), port }
}

/** The low-cardinality `error.type` of the conventions: the HTTP status if it is an error, else the kind of failure. */
const errorType = ({ failure, http_status }: ProviderCall): string | null => {
  if (failure === null) return null
  if (http_status === null) return "no_answer"
  return http_status >= 300 ? String(http_status) : "invalid_answer"
}
