import type { MastraModelConfig } from "@mastra/core/llm"
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test"

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

/** In place of `"openai/…"` or another model: looks the order up, refunds it, and reports the result. */
export const agentModel = (): MastraModelConfig => {
  const model = new MockLanguageModelV4({
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
      const said = "value" in output ? JSON.stringify(output.value) : ""
      return {
        content: [{ type: "text", text: `The refund: ${said}` }],
        finishReason: { unified: "stop", raw: undefined },
        usage,
        warnings: []
      }
    },
    doStream: async (options) => {
      const { content, finishReason } = await model.doGenerate(options)
      const [part] = content
      return {
        stream: convertArrayToReadableStream([
          { type: "stream-start" as const, warnings: [] },
          ...(part?.type === "text"
            ? [
                { type: "text-start" as const, id: "1" },
                { type: "text-delta" as const, id: "1", delta: part.text },
                { type: "text-end" as const, id: "1" }
              ]
            : part?.type === "tool-call"
              ? [part]
              : []),
          { type: "finish" as const, usage, finishReason }
        ])
      }
    }
  })
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Mastra takes models of the AI SDK, but declares `doGenerate` as its own wrapper has it
  return model as unknown as MastraModelConfig
}
