/** The responses of OpenAI's chat completions API. */
import { Predicate, Result, Schema } from "effect"
import { MAX_TOKENS, type Usage } from "../../../domain/tasks/Provider.ts"

/** A part of a message's content. Only parts with text, whatever their type is called, are parts of the answer. */
const Part = Schema.Struct({ text: Schema.optionalKey(Schema.NullOr(Schema.String)) })

const Completion = Schema.fromJsonString(
  Schema.Struct({
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
  readonly content: string
  /** Why the content is not a usable answer, as a sentence; null if it is one. */
  readonly stopped: string | null
}

/** Parses a response body; `undefined` if it is not a chat completion. */
export const parseCompletion = (body: Uint8Array): ParsedCompletion | undefined => {
  const decoded = decodeCompletion(new TextDecoder().decode(body))
  if (Result.isFailure(decoded)) return undefined
  const { choices, usage } = decoded.success
  const [{ finish_reason, message }] = choices
  const refused = typeof message.refusal === "string" && message.refusal !== ""
  return {
    usage: {
      input_tokens: toCount(usage, "prompt_tokens"),
      output_tokens: toCount(usage, "completion_tokens")
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

/** A number of tokens, rounded up and limited to the column's range; 0 for anything that is not a positive number. */
const toCount = (usage: unknown, name: "prompt_tokens" | "completion_tokens"): number => {
  const count = Predicate.hasProperty(usage, name) ? usage[name] : undefined
  return typeof count === "number" && count > 0 ? Math.min(MAX_TOKENS, Math.ceil(count)) : 0
}
