import { Schema } from "effect"
import { documented } from "../documented.ts"
import { documentedEnum } from "../documentedEnum.ts"

/** Longest base URL in bytes. It is part of a primary key, and an index entry of PostgreSQL holds at most 2,700 bytes. */
const MAX_URL_BYTES = 2_000

/** The base URL of an OpenAI-compatible API, such as `https://api.openai.com/v1`: no query, no credentials. */
export const BaseUrl = Schema.String.check(
  Schema.isMaxLength(MAX_URL_BYTES),
  Schema.makeFilter((url) => new TextEncoder().encode(url).length <= MAX_URL_BYTES, {
    expected: `a URL of ${MAX_URL_BYTES} bytes at most`
  }),
  Schema.isPattern(/^[^?]*$/u, { expected: "a URL without a query" }),
  // Other faults are `INVALID_URL`.
  documented({ format: "uri", minLength: 1 })
)

export const TokenPrice = Schema.Struct({
  input_per_million: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)).annotateKey({
    description: "Price of a million input tokens."
  }),
  output_per_million: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)).annotateKey({
    description: "Price of a million output tokens."
  })
}).annotate({
  identifier: "TokenPrice",
  description: "What tokens cost, in any one currency. Comparisons compute their costs with it."
})
export type TokenPrice = typeof TokenPrice.Type

export const StructuredOutput = documentedEnum({
  json_schema:
    "Send the answer schema as `response_format`. If the server can enforce it (`strict`), the prompt does not repeat it.",
  json_object: "Ask for any JSON object.",
  none: "Ask in the prompt alone, for servers that support neither."
})

export const ReasoningEffort = documentedEnum({
  none: "No reasoning.",
  minimal: "As little as possible.",
  low: "Little.",
  medium: "Some.",
  high: "Much.",
  xhigh: "As much as possible."
})

/** Most tokens that an answer may be limited to. */
const MAX_ANSWER_TOKENS = 1_000_000

/** Time limit of one run in seconds, over all attempts, backoff and the repair of an invalid answer. */
export const TimeoutSeconds = Schema.Finite.check(
  Schema.isBetween({ minimum: 1, maximum: 120 }, { expected: "a number of seconds from 1 to 120" })
)

export const ExamplesProvider = Schema.Struct({
  kind: Schema.Literal("examples").annotateKey({ description: "Always `examples`." }),
  model: Schema.Literal("nearest").annotateKey({
    description: "Always `nearest`: the answer of the example whose input is most similar."
  }),
  min_score: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 })).annotateKey({
    description:
      "Lowest score of an example that answers a run, 0 to 1. A run without one fails with `NO_NEAR_EXAMPLE`. The score is 1 if the example has the same input, and 0 if they have nothing in common; an example with the score 0 never answers. Default 0: the nearest of the others answers."
  })
}).annotate({
  identifier: "ExamplesProvider",
  description: "Answers with the nearest example of the release's dataset. Needs no key and no network."
})
export type ExamplesProvider = typeof ExamplesProvider.Type

/** Examples in a prompt at most. */
const MAX_PROMPT_EXAMPLES = 50

/** Tokens of examples in a prompt at most. */
const MAX_PROMPT_TOKENS = 100_000

export const FewShot = Schema.Struct({
  examples: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_PROMPT_EXAMPLES })).annotateKey({
    description:
      "Number of examples in the prompt at most, 0 to 50. 0: none. If none is near the input, one shows the form of the answers. Default 5."
  }),
  max_tokens: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_PROMPT_TOKENS })).annotateKey({
    description:
      "Their size in tokens at most, 0 to 100,000, estimated at four bytes of JSON each. An example that does not fit is left out in favor of the next nearest. Default 4,000."
  })
}).annotate({
  identifier: "FewShot",
  description:
    "Examples in the model's prompt: those of the release's dataset version whose inputs are nearest to the run's."
})
export type FewShot = typeof FewShot.Type

/** Settings that every kind of model has. */
const modelFields = {
  model: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)).annotateKey({
    description: "The model's name at the provider. 1 to 200 characters."
  }),
  top_p: Schema.NullOr(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))).annotateKey({
    description:
      "Share of the most probable tokens to sample from, 0 to 1. Null, the default, leaves it to the provider."
  }),
  few_shot: FewShot.annotateKey({
    description: "The examples of the dataset that the model sees in its prompt."
  }),
  timeout_seconds: TimeoutSeconds.annotateKey({
    description: "Time limit of one run in seconds, retries included, 1 to 120. Default 60."
  }),
  send_traceparent: Schema.Boolean.annotateKey({
    description:
      "Whether requests of runs carry a W3C `traceparent` of the call's span, so that the provider's own spans join the trace. Default false."
  }),
  price: Schema.NullOr(TokenPrice).annotateKey({
    description:
      "Token prices, for the costs of comparisons. Null, the default, means costs are not computed."
  })
}

export const OpenAiProvider = Schema.Struct({
  kind: Schema.Literal("openai").annotateKey({ description: "Always `openai`." }),
  base_url: BaseUrl.annotateKey({
    description:
      "Base URL of the API, such as `https://api.openai.com/v1`, or of a deployment of Azure OpenAI: public HTTPS, or an address that the operator allows by `COUNTERSIGN_PROVIDER_ALLOW`; at most 2,000 bytes, without a query or credentials."
  }),
  azure_api_version: Schema.NullOr(
    Schema.String.check(
      Schema.isPattern(/^[0-9A-Za-z.-]{1,40}$/u, { expected: "a version, such as `2024-10-21`" })
    )
  ).annotateKey({
    description:
      "The API version of a deployment of Azure OpenAI, such as `2024-10-21`, sent as `api-version`; the key is then sent in the header `api-key`. Null, the default, for any other API, also Azure's `/openai/v1`."
  }),
  ...modelFields,
  temperature: Schema.NullOr(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 }))).annotateKey({
    description: "Sampling temperature, 0 to 2. Null, the default, leaves it to the provider."
  }),
  seed: Schema.NullOr(Schema.Int).annotateKey({
    description: "Seed of the sampling, for providers that have one. Null, the default, sends none."
  }),
  max_tokens: Schema.NullOr(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_ANSWER_TOKENS }))
  ).annotateKey({
    description:
      "Tokens of an answer at most, 1 to 1,000,000, reasoning included. Sent as `max_completion_tokens` to models that reason. Null, the default, leaves it to the provider."
  }),
  reasoning_effort: Schema.NullOr(ReasoningEffort).annotateKey({
    description: "How much a model reasons that can. Null, the default, leaves it to the provider."
  }),
  structured_output: StructuredOutput.annotateKey({
    description:
      "How the provider is asked for JSON. The answer is validated against the answer schema in each case. Default `json_schema`."
  })
}).annotate({
  identifier: "OpenAiProvider",
  description: "Any server with an API compatible with OpenAI's chat completions."
})
export type OpenAiProvider = typeof OpenAiProvider.Type

export const ToolOutput = documentedEnum({
  tool: "Have the model call a tool whose input is the answer. A schema that cannot be a tool's is sent in the prompt.",
  none: "Ask in the prompt alone, for models that cannot be forced to call a tool."
})

export const AnthropicProvider = Schema.Struct({
  kind: Schema.Literal("anthropic").annotateKey({ description: "Always `anthropic`." }),
  base_url: BaseUrl.annotateKey({
    description:
      "Base URL of the API. Default `https://api.anthropic.com/v1`; otherwise public HTTPS, or an address that the operator allows by `COUNTERSIGN_PROVIDER_ALLOW`; at most 2,000 bytes, without a query or credentials."
  }),
  ...modelFields,
  temperature: Schema.NullOr(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))).annotateKey({
    description: "Sampling temperature, 0 to 1. Null, the default, leaves it to the provider."
  }),
  max_tokens: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_ANSWER_TOKENS })).annotateKey({
    description: "Tokens of an answer at most, 1 to 1,000,000. Default 4,096."
  }),
  structured_output: ToolOutput.annotateKey({
    description:
      "How the provider is asked for JSON. The answer is validated against the answer schema in each case. Default `tool`."
  })
}).annotate({
  identifier: "AnthropicProvider",
  description: "Anthropic's Messages API, or any server with a compatible one."
})
export type AnthropicProvider = typeof AnthropicProvider.Type

/** The providers that call a model. */
export type ModelProvider = OpenAiProvider | AnthropicProvider

export const Provider = Schema.Union([ExamplesProvider, OpenAiProvider, AnthropicProvider]).annotate({
  identifier: "Provider",
  description: "What answers a task's runs. Its API key and headers are stored separately and never returned."
})
export type Provider = typeof Provider.Type

/** The provider of a task that names none. It works immediately, without a key or a network. */
export const defaultProvider: ExamplesProvider = { kind: "examples", model: "nearest", min_score: 0 }

/** Bytes of a prompt per token. Tokenizers differ by model; for English text this is about right, and an upper limit needs no more. */
export const BYTES_PER_TOKEN = 4

/** The examples in the prompt of a provider that names none. */
export const defaultFewShot: FewShot = { examples: 5, max_tokens: 4_000 }

/** Time limit of a run if the provider names none, in seconds. */
const DEFAULT_TIMEOUT_SECONDS = 60

export const NewExamplesProvider = Schema.Struct({
  kind: ExamplesProvider.fields.kind,
  min_score: Schema.optionalKey(ExamplesProvider.fields.min_score)
}).annotate({
  identifier: "NewExamplesProvider",
  description: "Answers with the nearest example of the release's dataset."
})

export const NewFewShot = Schema.Struct({
  examples: Schema.optionalKey(FewShot.fields.examples),
  max_tokens: Schema.optionalKey(FewShot.fields.max_tokens)
}).annotate({
  identifier: "NewFewShot",
  description: "The examples of the dataset that the model sees in its prompt."
})
export type NewFewShot = typeof NewFewShot.Type

/** Most headers of a provider, and the longest value of one in characters. */
export const MAX_PROVIDER_HEADERS = 10
const MAX_HEADER_VALUE = 4_096

/** Secrets of a model provider in a request. */
const credentialFields = {
  api_key: Schema.optionalKey(
    Schema.RedactedFromValue(
      Schema.String.check(
        Schema.isMaxLength(4_096),
        Schema.isPattern(/^[!-~]+$/u, { expected: "visible ASCII characters" })
      ).annotate({
        description:
          "Sent to the provider as its API expects. At most 4,096 visible ASCII characters. Stored encrypted, used for this base URL only, never returned. If absent, the task's key for this base URL is used, if it has one."
      })
    )
  ),
  headers: Schema.optionalKey(
    Schema.Record(
      Schema.String,
      Schema.RedactedFromValue(Schema.String.check(Schema.isMaxLength(MAX_HEADER_VALUE)))
    ).check(documented({ maxProperties: MAX_PROVIDER_HEADERS }))
  ).annotateKey({
    description:
      "Headers to send with each call, by name, such as `OpenAI-Project` or a gateway's. At most 10 of at most 4,096 characters; none that authenticate by the key's own header, or belong to the connection, trace context or cookies. Stored encrypted, used for this base URL only, never returned. If absent, the task's headers for this base URL are used; `{}` removes them."
  })
}

export const NewOpenAiProvider = Schema.Struct({
  kind: OpenAiProvider.fields.kind,
  base_url: OpenAiProvider.fields.base_url,
  azure_api_version: Schema.optionalKey(OpenAiProvider.fields.azure_api_version),
  model: OpenAiProvider.fields.model,
  ...credentialFields,
  temperature: Schema.optionalKey(OpenAiProvider.fields.temperature),
  top_p: Schema.optionalKey(OpenAiProvider.fields.top_p),
  seed: Schema.optionalKey(OpenAiProvider.fields.seed),
  max_tokens: Schema.optionalKey(OpenAiProvider.fields.max_tokens),
  reasoning_effort: Schema.optionalKey(OpenAiProvider.fields.reasoning_effort),
  few_shot: Schema.optionalKey(
    NewFewShot.annotateKey({ description: "The examples of the dataset that the model sees in its prompt." })
  ),
  structured_output: Schema.optionalKey(OpenAiProvider.fields.structured_output),
  timeout_seconds: Schema.optionalKey(OpenAiProvider.fields.timeout_seconds),
  send_traceparent: Schema.optionalKey(OpenAiProvider.fields.send_traceparent),
  price: Schema.optionalKey(OpenAiProvider.fields.price)
}).annotate({
  identifier: "NewOpenAiProvider",
  description: "Calls a server with an API compatible with OpenAI's chat completions."
})
export type NewOpenAiProvider = typeof NewOpenAiProvider.Type

export const NewAnthropicProvider = Schema.Struct({
  kind: AnthropicProvider.fields.kind,
  base_url: Schema.optionalKey(AnthropicProvider.fields.base_url),
  model: AnthropicProvider.fields.model,
  ...credentialFields,
  temperature: Schema.optionalKey(AnthropicProvider.fields.temperature),
  top_p: Schema.optionalKey(AnthropicProvider.fields.top_p),
  max_tokens: Schema.optionalKey(AnthropicProvider.fields.max_tokens),
  few_shot: Schema.optionalKey(
    NewFewShot.annotateKey({ description: "The examples of the dataset that the model sees in its prompt." })
  ),
  structured_output: Schema.optionalKey(AnthropicProvider.fields.structured_output),
  timeout_seconds: Schema.optionalKey(AnthropicProvider.fields.timeout_seconds),
  send_traceparent: Schema.optionalKey(AnthropicProvider.fields.send_traceparent),
  price: Schema.optionalKey(AnthropicProvider.fields.price)
}).annotate({
  identifier: "NewAnthropicProvider",
  description: "Calls Anthropic's Messages API, or a server with a compatible one."
})
export type NewAnthropicProvider = typeof NewAnthropicProvider.Type

export const NewProvider = Schema.Union([
  NewExamplesProvider,
  NewOpenAiProvider,
  NewAnthropicProvider
]).annotate({
  identifier: "NewProvider",
  description: "A provider to use, with its API key."
})
export type NewProvider = typeof NewProvider.Type

/** The base URL of an Anthropic provider that names none. */
const ANTHROPIC_URL = "https://api.anthropic.com/v1"

/** Tokens of an answer if an Anthropic provider names no limit, which its API requires. */
const DEFAULT_ANSWER_TOKENS = 4_096

/** The provider to store: defaults filled in, without the API key and the headers. */
export const withProviderDefaults = (given: NewProvider): Provider => {
  switch (given.kind) {
    case "examples":
      return { ...defaultProvider, min_score: given.min_score ?? defaultProvider.min_score }
    case "openai":
      return {
        kind: "openai",
        base_url: given.base_url.replace(/\/+$/, ""),
        azure_api_version: given.azure_api_version ?? null,
        ...modelDefaults(given),
        temperature: given.temperature ?? null,
        seed: given.seed ?? null,
        max_tokens: given.max_tokens ?? null,
        reasoning_effort: given.reasoning_effort ?? null,
        structured_output: given.structured_output ?? "json_schema"
      }
    case "anthropic":
      return {
        kind: "anthropic",
        base_url: (given.base_url ?? ANTHROPIC_URL).replace(/\/+$/, ""),
        ...modelDefaults(given),
        temperature: given.temperature ?? null,
        max_tokens: given.max_tokens ?? DEFAULT_ANSWER_TOKENS,
        structured_output: given.structured_output ?? "tool"
      }
  }
}

const modelDefaults = (given: NewOpenAiProvider | NewAnthropicProvider) => ({
  model: given.model,
  top_p: given.top_p ?? null,
  few_shot: { ...defaultFewShot, ...given.few_shot },
  timeout_seconds: given.timeout_seconds ?? DEFAULT_TIMEOUT_SECONDS,
  send_traceparent: given.send_traceparent ?? false,
  price: given.price ?? null
})

/** A count of tokens, or null if the provider reported none. */
const tokens = (kind: string) =>
  Schema.NullOr(Schema.Int).annotateKey({
    description: `${kind} tokens. Null if the provider did not report them.`
  })

export const Usage = Schema.Struct({
  input_tokens: tokens("Input"),
  output_tokens: tokens("Output")
}).annotate({
  identifier: "Usage",
  description: "Tokens that the provider counted. 0 if no model was called."
})
export type Usage = typeof Usage.Type

/** The usage of an answer without a call to a model. */
export const noUsage: Usage = { input_tokens: 0, output_tokens: 0 }

/** The usage of a call whose provider reported none. */
export const unknownUsage: Usage = { input_tokens: null, output_tokens: null }

/** Largest token count that is stored: the column is a 32-bit integer, and a provider may report any number. */
export const MAX_TOKENS = 2 ** 31 - 1

const addTokens = (left: number | null, right: number | null): number | null =>
  left === null ? right : right === null ? left : Math.min(left + right, MAX_TOKENS)

/** The sum of the reported usages, each count at most {@link MAX_TOKENS}. */
export const sumUsage = (usages: ReadonlyArray<Usage>): Usage =>
  usages.length === 0
    ? noUsage
    : usages.reduce(
        (sum, usage) => ({
          input_tokens: addTokens(sum.input_tokens, usage.input_tokens),
          output_tokens: addTokens(sum.output_tokens, usage.output_tokens)
        }),
        unknownUsage
      )

/** The cost of a usage in the currency of the price; null if the provider has no price, or did not report the tokens. */
export const costOf = (provider: Provider, { input_tokens, output_tokens }: Usage): number | null => {
  if (provider.kind === "examples" || provider.price === null) return null
  if (input_tokens === null || output_tokens === null) return null
  const { input_per_million, output_per_million } = provider.price
  return (input_tokens * input_per_million + output_tokens * output_per_million) / 1_000_000
}
