import { MockLanguageModelV4 } from "ai/test"

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

/** In place of `openai("…")` or another model: looks the order up, refunds it, and reports the result. */
export const agentModel = () =>
  new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const call = (toolCallId: string, toolName: string, input: object) => ({
        content: [{ type: "tool-call" as const, toolCallId, toolName, input: JSON.stringify(input) }],
        finishReason: { unified: "tool-calls" as const, raw: undefined },
        usage,
        warnings: []
      })
      const [result] = prompt.flatMap((message) => (message.role === "tool" ? message.content : [])).slice(-1)
      if (result?.type !== "tool-result") return call("call_1", "lookup", { order: "4711" })
      if (result.toolCallId === "call_1")
        return call("call_2", "refund", { order: "4711", amount_cents: "12900" })
      const { output } = result
      const said = "value" in output ? JSON.stringify(output.value) : (output.reason ?? "")
      return {
        content: [{ type: "text", text: `The refund: ${said}` }],
        finishReason: { unified: "stop", raw: undefined },
        usage,
        warnings: []
      }
    }
  })
