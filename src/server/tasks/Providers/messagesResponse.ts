/** The responses of Anthropic's Messages API. */
import { Array as Arr, Option, Result, Schema } from "effect"
import { MAX_CONTENT_PARTS, type ParsedCompletion, type ParsedResponse } from "./ModelApi.ts"
import { toName, toReason } from "./responseNames.ts"
import { toCount, toUsage } from "./toUsage.ts"

/** A block of the content: a text, a call of the tool, or of another type, such as reasoning, which is ignored. */
const Block = Schema.Struct({
  type: Schema.String,
  text: Schema.optionalKey(Schema.NullOr(Schema.String)),
  input: Schema.optionalKey(Schema.Unknown)
})

const Message = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.Unknown),
    model: Schema.optionalKey(Schema.Unknown),
    // Blocks. Their number is checked before they are decoded.
    content: Schema.optionalKey(Schema.Unknown),
    stop_reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
    error: Schema.optionalKey(Schema.NullOr(Schema.Struct({ type: Schema.optionalKey(Schema.String) }))),
    // Any value: odd figures must not lose an answer that was paid for.
    usage: Schema.optionalKey(Schema.Unknown)
  })
)

const decodeMessage = Schema.decodeUnknownResult(Message)
const decodeBlocks = Schema.decodeUnknownOption(Schema.Array(Block))

/** The HTTP statuses of the API's error types, for gateways that send an error with the status 200. */
const errorStatus: ReadonlyMap<string, number> = new Map([
  ["invalid_request_error", 400],
  ["authentication_error", 401],
  ["billing_error", 402],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["request_too_large", 413],
  ["rate_limit_error", 429],
  ["api_error", 500],
  ["timeout_error", 504],
  ["overloaded_error", 529]
])

/** Parses a response body; `undefined` if it is not a message. */
export const parseMessage = (source: string): ParsedResponse | undefined => {
  const decoded = decodeMessage(source)
  if (Result.isFailure(decoded)) return undefined
  const { content, error, id, model, stop_reason, usage: reported } = decoded.success
  // Tokens that were written to or read from the prompt cache are not part of `input_tokens`.
  const usage = toUsage(reported, "input_tokens", "output_tokens", [
    "cache_creation_input_tokens",
    "cache_read_input_tokens"
  ])
  if (error !== undefined && error !== null)
    return { _tag: "Error", status: errorStatus.get(error.type ?? "") ?? 502, usage }
  if (!Arr.isArray(content) || content.length > MAX_CONTENT_PARTS) return undefined
  const blocks = Option.getOrUndefined(decodeBlocks(content))
  if (blocks === undefined) return undefined
  const call = blocks.find(({ type }) => type === "tool_use")
  const completion: ParsedCompletion = {
    usage,
    response: {
      id: toName(id),
      model: toName(model),
      finish_reason: toReason(stop_reason),
      ...usage,
      cached_tokens: toCount(reported, "cache_read_input_tokens"),
      cache_creation_tokens: toCount(reported, "cache_creation_input_tokens"),
      // Part of the output tokens; the API does not say how many.
      reasoning_tokens: null
    },
    content: call === undefined ? textOf(blocks) : { input: call.input },
    stopped:
      stop_reason === "refusal"
        ? "refused"
        : stop_reason === "max_tokens" || stop_reason === "model_context_window_exceeded"
          ? "truncated"
          : null
  }
  return { _tag: "Completion", completion }
}

const textOf = (content: ReadonlyArray<typeof Block.Type>): string =>
  content.map(({ text, type }) => (type === "text" ? (text ?? "") : "")).join("")
