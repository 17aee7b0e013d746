import type { Provider } from "../tasks/Provider.ts"

/** Hosts whose provider is among the well-known values of `gen_ai.provider.name`. */
const wellKnown: ReadonlyMap<string, string> = new Map([
  ["api.openai.com", "openai"],
  ["api.anthropic.com", "anthropic"],
  ["api.cohere.ai", "cohere"],
  ["api.deepseek.com", "deepseek"],
  ["api.groq.com", "groq"],
  ["api.mistral.ai", "mistral_ai"],
  ["api.perplexity.ai", "perplexity"],
  ["api.x.ai", "x_ai"],
  ["generativelanguage.googleapis.com", "gcp.gemini"]
])

/**
 * Returns the value of `gen_ai.provider.name` for a provider. An unknown server with OpenAI's protocol is `openai`, as the conventions
 * require of a client that cannot identify the provider.
 */
export const genAiProviderName = (provider: Provider): string =>
  provider.kind === "examples"
    ? "svc.examples"
    : (wellKnown.get(URL.parse(provider.base_url)?.hostname ?? "") ?? "openai")
