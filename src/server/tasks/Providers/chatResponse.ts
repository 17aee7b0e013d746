/** The responses of OpenAI's chat completions API. */
import { Predicate, Result, Schema } from "effect"
import type { ParsedCompletion, ParsedResponse } from "./ModelApi.ts"
import { toName, toReason } from "./responseNames.ts"
import { toCount, toUsage } from "./toUsage.ts"

/** A part of a message's content. Only parts with text, whatever their type is called, are parts of the answer. */
const Part = Schema.Struct({ text: Schema.optionalKey(Schema.NullOr(Schema.String)) })

/** An error in place of an answer. OpenRouter reports errors of the model's host so, with the status 200. */
const ErrorBody = Schema.Struct({
  code: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.Number, Schema.String])))
})

const Completion = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.Unknown),
    model: Schema.optionalKey(Schema.Unknown),
    choices: Schema.optionalKey(
      Schema.NullOr(
        Schema.Array(
          Schema.Struct({
            message: Schema.optionalKey(
              Schema.NullOr(
                Schema.Struct({
                  content: Schema.optionalKey(
                    Schema.NullOr(Schema.Union([Schema.String, Schema.Array(Part)]))
                  ),
                  refusal: Schema.optionalKey(Schema.NullOr(Schema.String))
                })
              )
            ),
            finish_reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
            error: Schema.optionalKey(Schema.NullOr(ErrorBody))
          })
        )
      )
    ),
    error: Schema.optionalKey(Schema.NullOr(ErrorBody)),
    // Any value: odd figures must not lose an answer that was paid for.
    usage: Schema.optionalKey(Schema.Unknown)
  })
)

const decodeCompletion = Schema.decodeUnknownResult(Completion)

/** Parses a response body; `undefined` if it is not a chat completion. */
export const parseCompletion = (body: Uint8Array): ParsedResponse | undefined => {
  const decoded = decodeCompletion(new TextDecoder().decode(body))
  if (Result.isFailure(decoded)) return undefined
  const { choices, error, id, model, usage: reported } = decoded.success
  const usage = toUsage(reported, "prompt_tokens", "completion_tokens")
  const choice = choices?.[0]
  const failure = error ?? choice?.error
  if (Predicate.isNotNullish(failure)) return { _tag: "Error", status: statusOf(failure), usage }
  if (Predicate.isNullish(choice?.message)) return undefined
  const { finish_reason, message } = choice
  if (finish_reason === "error") return { _tag: "Error", status: 502, usage }
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
    content: toText(message.content ?? ""),
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

const toText = (content: string | ReadonlyArray<typeof Part.Type>): string =>
  typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("")
