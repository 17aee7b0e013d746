/** The responses of OpenAI's chat completions API. */
import { Array as Arr, Option, Predicate, Result, Schema } from "effect"
import { MAX_CONTENT_PARTS, type ParsedCompletion, type ParsedResponse } from "./ModelApi.ts"
import { toName, toReason } from "./responseNames.ts"
import { toCount, toUsage } from "./toUsage.ts"

/** The parts of a message's content. Only parts with text, whatever their type is called, are parts of the answer. */
const Parts = Schema.Array(Schema.Struct({ text: Schema.optionalKey(Schema.NullOr(Schema.String)) }))

/** An error in place of an answer. OpenRouter reports errors of the model's host so, with the status 200. */
const ErrorBody = Schema.Struct({
  code: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.Number, Schema.String])))
})

const Choice = Schema.Struct({
  message: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        // A text or parts. Their number is checked before they are decoded.
        content: Schema.optionalKey(Schema.Unknown),
        refusal: Schema.optionalKey(Schema.NullOr(Schema.String))
      })
    )
  ),
  finish_reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
  error: Schema.optionalKey(Schema.NullOr(ErrorBody))
})

const Completion = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.Unknown),
    model: Schema.optionalKey(Schema.Unknown),
    // Only the first one is decoded: a request asks for one.
    choices: Schema.optionalKey(Schema.Unknown),
    error: Schema.optionalKey(Schema.NullOr(ErrorBody)),
    // Any value: odd figures must not lose an answer that was paid for.
    usage: Schema.optionalKey(Schema.Unknown)
  })
)

const decodeCompletion = Schema.decodeUnknownResult(Completion)
const decodeChoice = Schema.decodeUnknownOption(Choice)
const decodeParts = Schema.decodeUnknownOption(Parts)

/** Parses a response body; `undefined` if it is not a chat completion. */
export const parseCompletion = (body: string): ParsedResponse | undefined => {
  const decoded = decodeCompletion(body)
  if (Result.isFailure(decoded)) return undefined
  const { choices, error, id, model, usage: reported } = decoded.success
  const usage = toUsage(reported, "prompt_tokens", "completion_tokens")
  const choice = Option.getOrUndefined(decodeChoice(Arr.isArray(choices) ? choices[0] : undefined))
  const failure = error ?? choice?.error
  if (Predicate.isNotNullish(failure)) return { _tag: "Error", status: statusOf(failure), usage }
  if (Predicate.isNullish(choice?.message)) return undefined
  const { finish_reason, message } = choice
  if (finish_reason === "error") return { _tag: "Error", status: 502, usage }
  const content = toText(message.content ?? "")
  if (content === undefined) return undefined
  const refused = typeof message.refusal === "string" && message.refusal !== ""
  const input = detailsOf(reported, "prompt_tokens_details")
  const completion: ParsedCompletion = {
    usage,
    response: {
      id: toName(id),
      model: toName(model),
      finish_reason: toReason(finish_reason),
      ...usage,
      cached_tokens: toCount(input, "cached_tokens"),
      cache_creation_tokens: toCount(input, "cache_write_tokens"),
      reasoning_tokens: toCount(detailsOf(reported, "completion_tokens_details"), "reasoning_tokens")
    },
    content,
    stopped:
      refused || finish_reason === "content_filter"
        ? "refused"
        : finish_reason === "length"
          ? "truncated"
          : null
  }
  return { _tag: "Completion", completion }
}

/** The HTTP status that an error's code stands for; 502 for a code that is none, because the model's host failed. */
const statusOf = ({ code }: typeof ErrorBody.Type): number => {
  const status = Number(code)
  return Number.isInteger(status) && status >= 400 && status <= 599 ? status : 502
}

const detailsOf = (usage: unknown, name: string): unknown =>
  Predicate.hasProperty(usage, name) ? usage[name] : undefined

/** The text of a message's content; `undefined` if it is neither a text nor parts. */
const toText = (content: unknown): string | undefined => {
  if (typeof content === "string") return content
  if (!Arr.isArray(content) || content.length > MAX_CONTENT_PARTS) return undefined
  const parts = Option.getOrUndefined(decodeParts(content))
  return parts?.map(({ text }) => text ?? "").join("")
}
