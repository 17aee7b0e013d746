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
  json_schema: "Send the answer schema as `response_format`.",
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
      "Lowest score of an example that answers a run, 0 to 1. A run without one fails with `NO_NEAR_EXAMPLE`. The score is 1 if example and input have the same words, and 0 if they have none in common. Default 0: the nearest example always answers."
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
    description: "Number of examples in the prompt, 0 to 50. 0: none. Default 5."
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

export const OpenAiProvider = Schema.Struct({
  kind: Schema.Literal("openai").annotateKey({ description: "Always `openai`." }),
  base_url: BaseUrl.annotateKey({
    description:
      "Base URL of the API, such as `https://api.openai.com/v1`: public HTTPS, or an address that the operator allows by `COUNTERSIGN_PROVIDER_ALLOW`; at most 2,000 bytes, without a query or credentials."
  }),
  model: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)).annotateKey({
    description: "The model's name at the provider. 1 to 200 characters."
  }),
  temperature: Schema.NullOr(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 }))).annotateKey({
    description: "Sampling temperature, 0 to 2. Null, the default, leaves it to the provider."
  }),
  top_p: Schema.NullOr(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))).annotateKey({
    description:
      "Share of the most probable tokens to sample from, 0 to 1. Null, the default, leaves it to the provider."
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
  few_shot: FewShot.annotateKey({
    description: "The examples of the dataset that the model sees in its prompt."
  }),
  structured_output: StructuredOutput.annotateKey({
    description:
      "How the provider is asked for JSON. The answer is validated against the answer schema in each case. Default `json_schema`."
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
}).annotate({
  identifier: "OpenAiProvider",
  description: "Any server with an API compatible with OpenAI's chat completions."
})
export type OpenAiProvider = typeof OpenAiProvider.Type

export const Provider = Schema.Union([ExamplesProvider, OpenAiProvider]).annotate({
  identifier: "Provider",
  description: "What answers a task's runs. Its API key is stored separately and never returned."
})
export type Provider = typeof Provider.Type

/** The provider of a task that names none. It works immediately, without a key or a network. */
export const defaultProvider: ExamplesProvider = { kind: "examples", model: "nearest", min_score: 0 }

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

export const NewOpenAiProvider = Schema.Struct({
  kind: OpenAiProvider.fields.kind,
  base_url: OpenAiProvider.fields.base_url,
  model: OpenAiProvider.fields.model,
  api_key: Schema.optionalKey(
    Schema.RedactedFromValue(
      Schema.String.check(
        Schema.isMaxLength(4_096),
        Schema.isPattern(/^[!-~]+$/u, { expected: "visible ASCII characters" })
      ).annotate({
        description:
          "Sent to the provider as `Authorization: Bearer`. At most 4,096 visible ASCII characters. Stored encrypted, used for this base URL only, never returned. If absent, the task's key for this base URL is used, if it has one."
      })
    )
  ),
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

export const NewProvider = Schema.Union([NewExamplesProvider, NewOpenAiProvider]).annotate({
  identifier: "NewProvider",
  description: "A provider to use, with its API key."
})
export type NewProvider = typeof NewProvider.Type

/** The provider to store: defaults filled in, without the API key. */
export const withProviderDefaults = (given: NewProvider): Provider =>
  given.kind === "examples"
    ? { ...defaultProvider, min_score: given.min_score ?? defaultProvider.min_score }
    : {
        kind: "openai",
        base_url: given.base_url.replace(/\/+$/, ""),
        model: given.model,
        temperature: given.temperature ?? null,
        top_p: given.top_p ?? null,
        seed: given.seed ?? null,
        max_tokens: given.max_tokens ?? null,
        reasoning_effort: given.reasoning_effort ?? null,
        few_shot: { ...defaultFewShot, ...given.few_shot },
        structured_output: given.structured_output ?? "json_schema",
        timeout_seconds: given.timeout_seconds ?? DEFAULT_TIMEOUT_SECONDS,
        send_traceparent: given.send_traceparent ?? false,
        price: given.price ?? null
      }

export const Usage = Schema.Struct({
  input_tokens: Schema.Int.annotateKey({ description: "Input tokens." }),
  output_tokens: Schema.Int.annotateKey({ description: "Output tokens." })
}).annotate({
  identifier: "Usage",
  description: "Tokens that the provider counted. 0 if it reported none."
})
export type Usage = typeof Usage.Type

/** Zero tokens. */
export const noUsage: Usage = { input_tokens: 0, output_tokens: 0 }

/** Largest token count that is stored: the column is a 32-bit integer, and a provider may report any number. */
export const MAX_TOKENS = 2 ** 31 - 1

/** The sum of two usages, each count at most {@link MAX_TOKENS}. */
export const addUsage = (left: Usage, right: Usage): Usage => ({
  input_tokens: Math.min(left.input_tokens + right.input_tokens, MAX_TOKENS),
  output_tokens: Math.min(left.output_tokens + right.output_tokens, MAX_TOKENS)
})

/** The cost of a usage in the currency of the price; null if the provider has no price. */
export const costOf = (provider: Provider, usage: Usage): number | null => {
  if (provider.kind === "examples" || provider.price === null) return null
  const { input_per_million, output_per_million } = provider.price
  return (usage.input_tokens * input_per_million + usage.output_tokens * output_per_million) / 1_000_000
}
