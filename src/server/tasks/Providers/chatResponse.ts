/** The responses of OpenAI's chat completions API. */
import { Result, Schema } from "effect"
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { MAX_TOKENS, type Usage } from "../../../domain/tasks/Provider.ts"
import { contentLimits, scan } from "../../../domain/json/StrictJson.ts"

/** Nesting depth of an answer: the same limit as for a request. */
const MAX_DEPTH = 64

const Count = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_TOKENS }))

const Completion = Schema.fromJsonString(
  Schema.Struct({
    choices: Schema.NonEmptyArray(
      Schema.Struct({
        message: Schema.Struct({
          content: Schema.optionalKey(Schema.NullOr(Schema.String)),
          refusal: Schema.optionalKey(Schema.NullOr(Schema.String))
        }),
        finish_reason: Schema.optionalKey(Schema.NullOr(Schema.String))
      })
    ),
    usage: Schema.optionalKey(
      Schema.NullOr(
        Schema.Struct({
          prompt_tokens: Schema.optionalKey(Schema.NullOr(Count)),
          completion_tokens: Schema.optionalKey(Schema.NullOr(Count))
        })
      )
    )
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
      input_tokens: usage?.prompt_tokens ?? 0,
      output_tokens: usage?.completion_tokens ?? 0
    },
    content: message.content ?? "",
    stopped:
      refused || finish_reason === "content_filter"
        ? "The model refused to answer."
        : finish_reason === "length"
          ? "The model's answer was truncated at its token limit."
          : null
  }
}

/** Parses the model's text as a JSON object. A fault is worded so that it can be sent to the model. */
export const parseAnswer = (content: string): Result.Result<JsonObject, SchemaFault> => {
  const scanned = scan(content, { ...contentLimits, maxDepth: MAX_DEPTH })
  if (Result.isFailure(scanned)) return Result.fail(scanned.failure)
  return Result.mapError(decodeObject(content), () => ({ pointer: "#", detail: "Expected a JSON object" }))
}

const decodeObject = Schema.decodeUnknownResult(Schema.fromJsonString(JsonObject))
