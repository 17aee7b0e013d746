import { type BaseLlmConnection, BaseLlm, type LlmRequest, type LlmResponse } from "@google/adk"

/** In place of `model: "gemini-…"`: looks the order up, refunds it, and reports the result. */
class AgentModel extends BaseLlm {
  override async *generateContentAsync({ contents }: LlmRequest): AsyncGenerator<LlmResponse, void> {
    const last = contents.at(-1)?.parts?.at(-1)?.functionResponse
    const call = (id: string, name: string, args: Record<string, unknown>) => ({
      functionCall: { id, name, args }
    })
    const part =
      last === undefined
        ? call("call_1", "lookup", { order: "4711" })
        : last.name === "lookup"
          ? call("call_2", "refund", { order: "4711", amount_cents: 12_900 })
          : { text: `The refund: ${JSON.stringify(last.response)}` }
    yield { content: { role: "model", parts: [part] } }
  }

  override connect(): Promise<BaseLlmConnection> {
    throw new Error("This model has no live connection")
  }
}

export const agentModel = () => new AgentModel({ model: "scripted" })
