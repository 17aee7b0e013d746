import { Predicate, Result, Schema } from "effect"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { MAX_TOKENS, type OpenAiProvider, type Usage } from "../../../domain/tasks/Provider.ts"
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import { scan } from "../../../domain/json/StrictJson.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"

/** One turn of a conversation. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant"
  readonly content: string
}

/** Nesting that an answer may have: what a request may have too. */
const MAX_DEPTH = 64

/** What a model is told when its answer does not fit: at most this many of its faults. */
const MAX_REPORTED_FAULTS = 20

/** The conversation that a run begins with. The input goes as JSON, in a turn of its own, so that it is told from the instructions. */
export const initialMessages = (
  instructions: string,
  input: JsonObject,
  schema: JsonSchema
): ReadonlyArray<ChatMessage> => [
  {
    role: "system",
    content: [
      instructions,
      "The user's message is the input, as JSON. Answer with one JSON object that fits this JSON Schema, and with nothing else:",
      JSON.stringify(schema)
    ]
      .filter((part) => part !== "")
      .join("\n\n")
  },
  { role: "user", content: JSON.stringify(input) }
]

/** What is said after an answer that does not fit: the one attempt to repair it. */
export const repairMessages = (
  answer: string,
  faults: ReadonlyArray<SchemaFault>
): ReadonlyArray<ChatMessage> => [
  { role: "assistant", content: answer },
  {
    role: "user",
    content: [
      "That answer does not fit the JSON Schema:",
      ...faults.slice(0, MAX_REPORTED_FAULTS).map(({ detail, pointer }) => `- ${pointer}: ${detail}`),
      "Answer again with the corrected JSON object alone."
    ].join("\n")
  }
]

/** The body of a call (OpenAI's chat completions, without streaming). */
export const chatBody = (
  provider: OpenAiProvider,
  messages: ReadonlyArray<ChatMessage>,
  schema: JsonSchema
): string =>
  JSON.stringify({
    model: provider.model,
    messages,
    stream: false,
    ...(provider.temperature === null ? {} : { temperature: provider.temperature }),
    ...responseFormat(provider, schema)
  })

const responseFormat = ({ structured_output }: OpenAiProvider, schema: JsonSchema) => {
  switch (structured_output) {
    case "json_schema":
      return {
        response_format: {
          type: "json_schema",
          json_schema: { name: "answer", schema, strict: isStrict(schema) }
        }
      }
    case "json_object":
      return { response_format: { type: "json_object" } }
    case "none":
      return {}
  }
}

/**
 * Whether a schema is one that servers can hold a model to word by word: every object in it names all its properties as required and
 * takes no others. Others are a guide to the model, and only checked here.
 */
const isStrict = (schema: Schema.Json): boolean => {
  if (isArray(schema)) return schema.every(isStrict)
  if (!isObject(schema)) return true
  const { additionalProperties, properties, required } = schema
  if (properties !== undefined || schema["type"] === "object") {
    if (additionalProperties !== false || !isArray(required)) return false
    if (!Object.keys(properties ?? {}).every((name) => required.includes(name))) return false
  }
  return Object.values(schema).every(isStrict)
}

const isArray = (value: Schema.Json | undefined): value is Schema.JsonArray => Array.isArray(value)

const isObject = (value: Schema.Json): value is Schema.JsonObject => Predicate.isReadonlyObject(value)

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

/** A completion as far as it is of interest. */
export interface ParsedCompletion {
  readonly usage: Usage
  readonly content: string
  /** Why the content is none to go by, in a sentence; null: it is. */
  readonly stopped: string | null
}

/** Reads the answer of a server; undefined where it is none of this protocol. */
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
        ? "The model refused to answer"
        : finish_reason === "length"
          ? "The model's answer was cut off at its limit of tokens"
          : null
  }
}

/** The object that a model's text stands for, or what is wrong with the text, as a model can be told. */
export const parseAnswer = (content: string): Result.Result<JsonObject, SchemaFault> => {
  const scanned = scan(content, { maxDepth: MAX_DEPTH })
  if (Result.isFailure(scanned)) return Result.fail(scanned.failure)
  return Result.mapError(decodeObject(content), () => ({ pointer: "#", detail: "Expected a JSON object" }))
}

const decodeObject = Schema.decodeUnknownResult(Schema.fromJsonString(JsonObject))
