import type { Provider } from "../tasks/Provider.ts"

/** Hosts whose provider is among the well-known values of `gen_ai.provider.name`. */
const wellKnown: ReadonlyMap<string, string> = new Map([
  ["api.openai.com", "openai"],
  ["api.anthropic.com", "anthropic"],
  ["api.cohere.ai", "cohere"],
  ["api.deepseek.com", "deepseek"],
  ["api.groq.com", "groq"],
  ["api.mistral.ai", "mistral_ai"],
  ["api.moonshot.ai", "moonshot_ai"],
  ["api.moonshot.cn", "moonshot_ai"],
  ["api.perplexity.ai", "perplexity"],
  ["api.x.ai", "x_ai"],
  ["generativelanguage.googleapis.com", "gcp.gemini"]
])

/** Forms of the host names of providers that have one per customer or region. */
const hostForms: ReadonlyArray<readonly [RegExp, string]> = [
  [/\.openai\.azure\.com$/, "azure.ai.openai"],
  [/\.(?:services\.ai|inference\.ai)\.azure\.com$/, "azure.ai.inference"],
  [/^bedrock-(?:runtime|mantle)[.-].*\.(?:amazonaws\.com|api\.aws)$/, "aws.bedrock"],
  [/(?:^|-)aiplatform\.googleapis\.com$/, "gcp.vertex_ai"],
  [/\.ml\.cloud\.ibm\.com$/, "ibm.watsonx.ai"]
]

/**
 * Returns the value of `gen_ai.provider.name` for a provider. An unknown server with the protocol of OpenAI or Anthropic is `openai` or
 * `anthropic`, as the conventions require of a client that cannot identify the provider.
 */
export const genAiProviderName = (provider: Provider): string => {
  if (provider.kind === "examples") return "svc.examples"
  const host = URL.parse(provider.base_url)?.hostname ?? ""
  return wellKnown.get(host) ?? hostForms.find(([form]) => form.test(host))?.[1] ?? provider.kind
}
