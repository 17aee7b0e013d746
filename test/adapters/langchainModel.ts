import { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { AIMessage, type BaseMessage } from "@langchain/core/messages"
import type { ScriptedCall } from "./adapterContract.ts"

/** What the user of a test asks for. */
export const PROMPT = "Refund it"

/** A call that the model asks for. */
interface ModelCall extends Omit<ScriptedCall, "arguments"> {
  readonly arguments: object
}

type Responses = ReadonlyArray<ReadonlyArray<ModelCall>>

/** A model that asks for the calls of one response after the other. Its place in the script is what the messages say. */
class ScriptedChatModel extends BaseChatModel {
  readonly #responses: Responses
  /** The responses in the conversation of an agent that a tool runs with the same model. */
  readonly #inside: Responses

  constructor(responses: Responses, inside: Responses) {
    super({})
    this.#responses = responses
    this.#inside = inside
  }

  override _llmType() {
    return "scripted"
  }

  override bindTools() {
    return this
  }

  override async _generate(messages: ReadonlyArray<BaseMessage>) {
    const responses = messages.some(({ text }) => text === PROMPT) ? this.#responses : this.#inside
    const calls = responses[messages.filter((message) => AIMessage.isInstance(message)).length]
    const message =
      calls === undefined
        ? new AIMessage("Done")
        : new AIMessage({
            content: "",
            tool_calls: calls.map((call) => ({
              id: call.id,
              name: call.tool,
              args: { ...call.arguments },
              type: "tool_call"
            }))
          })
    return { generations: [{ message, text: message.text }] }
  }
}

export const scriptedChatModel = (responses: Responses, inside: Responses = responses) =>
  new ScriptedChatModel(responses, inside)
