import { type Message, Model, type ModelStreamEvent } from "@strands-agents/sdk"

/** In place of `new BedrockModel()` or another: looks the order up, refunds it, and reports the result. */
class AgentModel extends Model {
  override updateConfig(): void {}

  override getConfig() {
    return {}
  }

  override async *stream(messages: Array<Message>): AsyncIterable<ModelStreamEvent> {
    const last = messages.at(-1)?.content.findLast((block) => block.type === "toolResultBlock")
    const call =
      last === undefined
        ? { toolUseId: "call_1", name: "lookup", input: { order: "4711" } }
        : last.toolUseId === "call_1"
          ? { toolUseId: "call_2", name: "refund", input: { order: "4711", amount_cents: 12_900 } }
          : undefined
    yield { type: "modelMessageStartEvent", role: "assistant" }
    if (call === undefined) {
      const result = last?.content.map((block) =>
        block.type === "textBlock" ? block.text : JSON.stringify(block)
      )
      yield { type: "modelContentBlockStartEvent" }
      yield {
        type: "modelContentBlockDeltaEvent",
        delta: { type: "textDelta", text: `The refund: ${result?.join("") ?? ""}` }
      }
    } else {
      const { input, ...start } = call
      yield { type: "modelContentBlockStartEvent", start: { type: "toolUseStart", ...start } }
      yield {
        type: "modelContentBlockDeltaEvent",
        delta: { type: "toolUseInputDelta", input: JSON.stringify(input) }
      }
    }
    yield { type: "modelContentBlockStopEvent" }
    yield { type: "modelMessageStopEvent", stopReason: call === undefined ? "endTurn" : "toolUse" }
  }
}

export const agentModel = () => new AgentModel()
