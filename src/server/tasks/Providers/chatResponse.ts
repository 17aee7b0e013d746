/** The responses of OpenAI's chat completions API. */
import { Predicate, Result, Schema } from "effect"
import { MAX_TOKENS, type Usage } from "../../../domain/tasks/Provider.ts"
import type { ModelResponse } from "./ProviderRequest.ts"

/** A part of a message's content. Only parts with text, whatever their type is called, are parts of the answer. */
const Part = Schema.Struct({ text: Schema.optionalKey(Schema.NullOr(Schema.String)) })

const Completion = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.Unknown),
    model: Schema.optionalKey(Schema.Unknown),
    choices: Schema.NonEmptyArray(
      Schema.Struct({
        message: Schema.Struct({
          content: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.String, Schema.Array(Part)]))),
          refusal: Schema.optionalKey(Schema.NullOr(Schema.String))
        }),
        finish_reason: Schema.optionalKey(Schema.NullOr(Schema.String))
      })
    ),
    // Any value: odd figures must not lose an answer that was paid for.
    usage: Schema.optionalKey(Schema.Unknown)
  })
)

const decodeCompletion = Schema.decodeUnknownResult(Completion)

/** The relevant parts of a completion. */
export interface ParsedCompletion {
  readonly usage: Usage
  readonly response: ModelResponse
  readonly content: string
  /** Why the content is not a usable answer, as a sentence; null if it is one. */
  readonly stopped: string | null
}

/** Parses a response body; `undefined` if it is not a chat completion. */
export const parseCompletion = (body: Uint8Array): ParsedCompletion | undefined => {
  const decoded = decodeCompletion(new TextDecoder().decode(body))
  if (Result.isFailure(decoded)) return undefined
  const { choices, id, model, usage } = decoded.success
  const [{ finish_reason, message }] = choices
  const refused = typeof message.refusal === "string" && message.refusal !== ""
  return {
    usage: {
      input_tokens: toCount(usage, "prompt_tokens"),
      output_tokens: toCount(usage, "completion_tokens")
    },
    response: {
      id: toName(id),
      model: toName(model),
      finish_reason: toReason(finish_reason),
      input_tokens: reported(usage, "prompt_tokens"),
      output_tokens: reported(usage, "completion_tokens"),
      cached_tokens: reported(detailsOf(usage, "prompt_tokens_details"), "cached_tokens"),
      cache_creation_tokens: reported(detailsOf(usage, "prompt_tokens_details"), "cache_write_tokens"),
      reasoning_tokens: reported(detailsOf(usage, "completion_tokens_details"), "reasoning_tokens")
    },
    content: toText(message.content ?? ""),
    stopped:
      refused || finish_reason === "content_filter"
        ? "The model refused to answer."
        : finish_reason === "length"
          ? "The model's answer was truncated at its token limit."
          : null
  }
}

const toText = (content: string | ReadonlyArray<typeof Part.Type>): string =>
  typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("")

/** The form of a response's id and of a model's name. */
const NAME = /^[\w.:/@+-]{1,200}$/

/** The form of a finish reason. */
const REASON = /^[a-z][a-z_]{0,31}$/

const toName = (value: unknown): string | null =>
  typeof value === "string" && NAME.test(value) ? value : null

const toReason = (value: string | null | undefined): string | null =>
  typeof value === "string" && REASON.test(value) ? value : null

const detailsOf = (usage: unknown, name: string): unknown =>
  Predicate.hasProperty(usage, name) ? usage[name] : undefined

/** A number of tokens, or null if there is none. */
const reported = (usage: unknown, name: string): number | null => {
  const count = detailsOf(usage, name)
  return typeof count === "number" && count >= 0 ? Math.min(MAX_TOKENS, Math.ceil(count)) : null
}

/** A number of tokens, rounded up and limited to the column's range; 0 for anything that is not a positive number. */
const toCount = (usage: unknown, name: "prompt_tokens" | "completion_tokens"): number => {
  const count = Predicate.hasProperty(usage, name) ? usage[name] : undefined
  return typeof count === "number" && count > 0 ? Math.min(MAX_TOKENS, Math.ceil(count)) : 0
}
