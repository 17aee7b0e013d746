import { Schema } from "effect"

/** The most bytes of a base URL, which is part of a key in the store: an entry of its index takes 2,700. */
const MAX_URL_BYTES = 2_000

/** Where an OpenAI-compatible server answers: `https://api.openai.com/v1`, without a query. No credentials belong into it. */
export const BaseUrl = Schema.String.check(
  Schema.isMaxLength(MAX_URL_BYTES),
  Schema.makeFilter((url) => new TextEncoder().encode(url).length <= MAX_URL_BYTES, {
    expected: `a URL of ${MAX_URL_BYTES} bytes at most`
  }),
  Schema.isPattern(/^[^?]*$/u, { expected: "a URL without a query" })
)

/** What a million tokens cost, in a currency of one's own: it makes the costs of comparisons. */
export const TokenPrice = Schema.Struct({
  input_per_million: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)),
  output_per_million: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
}).annotate({ identifier: "TokenPrice" })
export type TokenPrice = typeof TokenPrice.Type

/**
 * How a server is asked for JSON: by the schema of the answer, for any JSON object, or in words alone, where a server knows neither. The
 * answer is held to the task's shape in each case.
 */
export const StructuredOutput = Schema.Literals(["json_schema", "json_object", "none"])

/** The seconds that one run may take, over all attempts, waits and the repair. */
export const TimeoutSeconds = Schema.Finite.check(
  Schema.isBetween({ minimum: 1, maximum: 120 }, { expected: "a number of seconds from 1 to 120" })
)

/** Answers with the nearest example of the release's dataset. Needs no network. */
export const ExamplesProvider = Schema.Struct({
  kind: Schema.Literal("examples"),
  model: Schema.Literal("nearest")
}).annotate({ identifier: "ExamplesProvider" })
export type ExamplesProvider = typeof ExamplesProvider.Type

/** Any server that speaks OpenAI's chat completions. */
export const OpenAiProvider = Schema.Struct({
  kind: Schema.Literal("openai"),
  base_url: BaseUrl,
  model: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)),
  /** Null: the server's own. */
  temperature: Schema.NullOr(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 }))),
  structured_output: StructuredOutput,
  timeout_seconds: TimeoutSeconds,
  price: Schema.NullOr(TokenPrice)
}).annotate({ identifier: "OpenAiProvider" })
export type OpenAiProvider = typeof OpenAiProvider.Type

/** Who answers a task's runs. Its key is kept apart and never part of it. */
export const Provider = Schema.Union([ExamplesProvider, OpenAiProvider]).annotate({ identifier: "Provider" })
export type Provider = typeof Provider.Type

/** The provider of a task that names none: it works at once, without a key or a network. */
export const defaultProvider: ExamplesProvider = { kind: "examples", model: "nearest" }

/** The seconds that a run may take where a provider says nothing. */
const DEFAULT_TIMEOUT_SECONDS = 60

/** A provider as it is given. The key is sealed, and answers calls to this base URL alone. */
export const NewProvider = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("examples") }),
  Schema.Struct({
    kind: Schema.Literal("openai"),
    base_url: BaseUrl,
    model: OpenAiProvider.fields.model,
    /** Sent as `Authorization: Bearer`. Never answered. Absent: the key that the task has for this base URL, if any. */
    api_key: Schema.optionalKey(
      Schema.RedactedFromValue(
        Schema.String.check(
          Schema.isMaxLength(4_096),
          Schema.isPattern(/^[\x21-\x7e]+$/u, { expected: "visible ASCII characters" })
        )
      )
    ),
    temperature: Schema.optionalKey(OpenAiProvider.fields.temperature),
    structured_output: Schema.optionalKey(StructuredOutput),
    timeout_seconds: Schema.optionalKey(TimeoutSeconds),
    price: Schema.optionalKey(OpenAiProvider.fields.price)
  })
]).annotate({ identifier: "NewProvider" })
export type NewProvider = typeof NewProvider.Type

/** A provider as it is kept: with everything that was left unsaid, without its key. */
export const withProviderDefaults = (given: NewProvider): Provider =>
  given.kind === "examples"
    ? defaultProvider
    : {
        kind: "openai",
        base_url: given.base_url.replace(/\/+$/, ""),
        model: given.model,
        temperature: given.temperature ?? null,
        structured_output: given.structured_output ?? "json_schema",
        timeout_seconds: given.timeout_seconds ?? DEFAULT_TIMEOUT_SECONDS,
        price: given.price ?? null
      }

/** Tokens that a provider counted. Zero where it does not say, or has none. */
export const Usage = Schema.Struct({ input_tokens: Schema.Int, output_tokens: Schema.Int }).annotate({
  identifier: "Usage"
})
export type Usage = typeof Usage.Type

/** No tokens. */
export const noUsage: Usage = { input_tokens: 0, output_tokens: 0 }

/** The most tokens that are counted of anything: what a column of the log holds. A server may name any number. */
export const MAX_TOKENS = 2 ** 31 - 1

/** Tokens of both, up to {@link MAX_TOKENS}. */
export const addUsage = (left: Usage, right: Usage): Usage => ({
  input_tokens: Math.min(left.input_tokens + right.input_tokens, MAX_TOKENS),
  output_tokens: Math.min(left.output_tokens + right.output_tokens, MAX_TOKENS)
})

/** What these tokens cost; null where the provider has no price. */
export const costOf = (provider: Provider, usage: Usage): number | null => {
  if (provider.kind === "examples" || provider.price === null) return null
  const { input_per_million, output_per_million } = provider.price
  return (usage.input_tokens * input_per_million + usage.output_tokens * output_per_million) / 1_000_000
}
