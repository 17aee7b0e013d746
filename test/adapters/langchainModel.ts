import { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { AIMessage, type BaseMessage } from "@langchain/core/messages"
import type { ScriptedCall } from "./adapterContract.ts"

/** A model that asks for the calls of one response after the other. Its place in the script is what the messages say. */
class ScriptedChatModel extends BaseChatModel {
  readonly #responses: ReadonlyArray<ReadonlyArray<ScriptedCall>>

  constructor(responses: ReadonlyArray<ReadonlyArray<ScriptedCall>>) {
    super({})
    this.#responses = responses
  }

  override _llmType() {
    return "scripted"
  }

  override bindTools() {
    return this
  }

  override async _generate(messages: ReadonlyArray<BaseMessage>) {
    const calls = this.#responses[messages.filter((message) => AIMessage.isInstance(message)).length]
    const message =
      calls === undefined
        ? new AIMessage("Done")
        : new AIMessage({
            content: "",
            tool_calls: calls.map((call) => ({
              id: call.id,
              name: call.tool,
              args: call.arguments,
              type: "tool_call"
            }))
          })
    return { generations: [{ message, text: message.text }] }
  }
}

export const scriptedChatModel = (responses: ReadonlyArray<ReadonlyArray<ScriptedCall>>) =>
  new ScriptedChatModel(responses)
