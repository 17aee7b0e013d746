/** The requests of OpenAI's chat completions API. */
import { Predicate, type Schema } from "effect"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { OpenAiProvider } from "../../../domain/tasks/Provider.ts"
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"

/** A message of a conversation. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant"
  readonly content: string
}

/** Faults in the message that asks the model to repair its answer. */
const MAX_REPORTED_FAULTS = 20

/** The first messages of a run. The input is a message of its own, as JSON, so that the model can distinguish it from the instructions. */
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

/** The messages that ask the model, once, to repair an answer that does not match the answer schema. */
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

/** The body of a chat completions request, without streaming. */
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
 * Whether servers can enforce a schema on the model's output (`strict`): each of its objects requires all its properties and allows no
 * others. Any other schema only guides the model, and the answer is validated here.
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
