/** The requests of Anthropic's Messages API. */
import { Predicate, Redacted, Result, Schema } from "effect"
import { isJsonArray } from "../../../domain/json/isJsonArray.ts"
import type { AnthropicProvider } from "../../../domain/tasks/Provider.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import type { Conversation, ModelRequest } from "./ModelApi.ts"
import { inputTurns, recordedMessages, repairPrompt, systemPrompt } from "./prompt.ts"

/** The version of the API (`anthropic-version`). */
const API_VERSION = "2023-06-01"

/** The tool whose input is the answer. */
export const ANSWER_TOOL = "answer"

/** A block of a message's content. */
type Block =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: JsonObject }
  | {
      readonly type: "tool_result"
      readonly tool_use_id: string
      readonly content: string
      readonly is_error?: boolean
    }

interface Message {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<Block>
}

const text = (content: string): Block => ({ type: "text", text: content })

const AGAIN = "Answer again with the corrected JSON object alone."

/** The turns of a conversation whose answers are texts. */
const textMessages = (conversation: Conversation): ReadonlyArray<Message> => {
  const { repair } = conversation
  return [
    ...inputTurns(conversation).map(({ content, role }) => ({ role, content: [text(content)] })),
    ...(repair === undefined
      ? []
      : ([
          // The API rejects an empty text.
          { role: "assistant", content: [text(repair.answer.trim() === "" ? "{}" : repair.answer)] },
          { role: "user", content: [text(repairPrompt(repair.faults, AGAIN))] }
        ] as const))
  ]
}

/** The turns of a conversation whose answers are calls of the tool. The next turn must begin with the result of the call. */
const toolMessages = ({ examples, input, repair }: Conversation): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  let result: ReadonlyArray<Block> = []
  const ask = (asked: JsonObject) => {
    messages.push({ role: "user", content: [...result, text(JSON.stringify(asked))] })
  }
  const answer = (given: JsonObject) => {
    const id = `toolu_${messages.length}`
    messages.push({ role: "assistant", content: [{ type: "tool_use", id, name: ANSWER_TOOL, input: given }] })
    result = [{ type: "tool_result", tool_use_id: id, content: "Right." }]
    return id
  }
  for (const example of examples.toReversed()) {
    ask(example.input)
    answer(example.answer)
  }
  ask(input)
  if (repair === undefined) return messages
  const given = parseAnswerText(repair.answer)
  const faults = repairPrompt(
    repair.faults,
    `Call the tool \`${ANSWER_TOOL}\` again with the corrected answer.`
  )
  if (given === undefined) {
    // Not a call of the tool: the model answered with a text.
    messages.push({ role: "assistant", content: [text(repair.answer.trim() === "" ? "{}" : repair.answer)] })
    messages.push({ role: "user", content: [text(faults)] })
  } else {
    const tool_use_id = answer(given)
    messages.push({
      role: "user",
      content: [{ type: "tool_result", tool_use_id, content: faults, is_error: true }]
    })
  }
  return messages
}

/** Keywords that the API rejects at the root of a tool's schema. */
const REFUSED_AT_ROOT = ["anyOf", "oneOf", "allOf", "$ref", "$dynamicRef", "not", "if", "enum", "const"]

/** A property name that the API accepts in a tool's schema. */
const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/

const isObject = (value: Schema.Json | undefined): value is Schema.JsonObject =>
  Predicate.isReadonlyObject(value)

/** Whether a schema can be that of a tool. Any other schema is in the prompt, and the answer is a text. */
export const isToolSchema = (schema: JsonSchema): boolean => {
  const named = (part: Schema.Json): boolean => {
    if (isJsonArray(part)) return part.every(named)
    if (!isObject(part)) return true
    const { properties } = part
    return (
      (!isObject(properties) || Object.keys(properties).every((name) => PROPERTY_NAME.test(name))) &&
      Object.values(part).every(named)
    )
  }
  return (
    schema["type"] === "object" && REFUSED_AT_ROOT.every((keyword) => !(keyword in schema)) && named(schema)
  )
}

/** A request of the Messages API, without streaming. */
export const messagesRequest = (
  provider: AnthropicProvider,
  conversation: Conversation,
  api_key: Redacted.Redacted | undefined
): ModelRequest => {
  const { base_url, max_tokens, model, structured_output, temperature, top_p } = provider
  const byTool = structured_output === "tool" && isToolSchema(conversation.schema)
  const system = byTool
    ? systemPrompt(conversation, { answerIn: `by the tool \`${ANSWER_TOOL}\``, showsSchema: false })
    : systemPrompt(conversation)
  return {
    messages: recordedMessages(system, conversation),
    url: `${base_url}/messages`,
    headers: {
      "anthropic-version": API_VERSION,
      ...(api_key === undefined ? {} : { "x-api-key": Redacted.value(api_key) })
    },
    body: JSON.stringify({
      model,
      max_tokens,
      ...(temperature === null ? {} : { temperature }),
      ...(top_p === null ? {} : { top_p }),
      system,
      messages: byTool ? toolMessages(conversation) : textMessages(conversation),
      ...(byTool
        ? {
            tools: [
              {
                name: ANSWER_TOOL,
                description: "Gives the answer to the user's last input.",
                input_schema: conversation.schema
              }
            ],
            tool_choice: { type: "tool", name: ANSWER_TOOL, disable_parallel_tool_use: true }
          }
        : {})
    })
  }
}

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(JsonObject))

/** The JSON object that a text is; `undefined` if it is none. */
const parseAnswerText = (text: string): JsonObject | undefined => {
  const decoded = decode(text)
  return Result.isSuccess(decoded) ? decoded.success : undefined
}
