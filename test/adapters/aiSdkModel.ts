import type { ModelMessage } from "ai"
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test"
import type { ScriptedCall } from "./adapterContract.ts"

/** A call that the model asks for. */
type ModelCall = Omit<ScriptedCall, "arguments"> & { readonly arguments: object }

type Generated = Awaited<ReturnType<MockLanguageModelV4["doGenerate"]>>
type Streamed = Awaited<ReturnType<MockLanguageModelV4["doStream"]>>
type Part = Streamed["stream"] extends ReadableStream<infer P> ? P : never

const usage: Generated["usage"] = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

/** A model that asks for the calls of one response after the other. Its place in the script is what the prompt says. */
export const scriptedModel = (responses: ReadonlyArray<ReadonlyArray<ModelCall>>): MockLanguageModelV4 => {
  const next = (
    prompt: ReadonlyArray<{ readonly role: string }>
  ): Pick<Generated, "content" | "finishReason"> => {
    const calls = responses[prompt.filter(({ role }) => role === "assistant").length]
    return calls === undefined
      ? { content: [{ type: "text", text: "Done" }], finishReason: { unified: "stop", raw: undefined } }
      : {
          content: calls.map((call) => ({
            type: "tool-call",
            toolCallId: call.id,
            toolName: call.tool,
            input: JSON.stringify(call.arguments)
          })),
          finishReason: { unified: "tool-calls", raw: undefined }
        }
  }
  return new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => ({ ...next(prompt), usage, warnings: [] }),
    doStream: async ({ prompt }) => {
      const { content, finishReason } = next(prompt)
      const parts = content.flatMap((part): ReadonlyArray<Part> =>
        part.type === "text"
          ? [
              { type: "text-start", id: "1" },
              { type: "text-delta", id: "1", delta: part.text },
              { type: "text-end", id: "1" }
            ]
          : part.type === "tool-call"
            ? [part]
            : []
      )
      return {
        stream: convertArrayToReadableStream<Part>([
          { type: "stream-start", warnings: [] },
          ...parts,
          { type: "finish", usage, finishReason }
        ])
      }
    }
  })
}

/** What the model was told about each call: the output in the tool messages of its last prompt. */
export const toldAbout = (messages: ReadonlyArray<ModelMessage>): Map<string, string> => {
  const told = new Map<string, string>()
  for (const message of messages) {
    if (message.role !== "tool") continue
    for (const part of message.content) {
      if (part.type === "tool-result")
        told.set(part.toolCallId, JSON.stringify(part.output).replaceAll('\\"', '"'))
    }
  }
  return told
}
