/** An agent of each framework that calls one tool, with and without an adapter, for measuring what the adapter adds. */
import { FunctionTool, InMemorySessionService, LlmAgent, LogLevel, Runner, setLogLevel } from "@google/adk"
import * as openai from "@openai/agents-core"
import { functionCall, modelResponse, ScriptedModel } from "@openai/agents-core/testing"
import type { MastraModelConfig } from "@mastra/core/llm"
import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import * as strands from "@strands-agents/sdk"
import { generateText, isStepCount, tool } from "ai"
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test"
import { AIMessage, createAgent, fakeModel, tool as langchainTool, ToolMessage } from "langchain"
import { z } from "zod"
import { governPlugin } from "../../src/adapters/adk.ts"
import * as aiSdk from "../../src/adapters/aiSdk.ts"
import { governHooks } from "../../src/adapters/claudeAgent.ts"
import { governMiddleware } from "../../src/adapters/langchain.ts"
import * as mastra from "../../src/adapters/mastra.ts"
import { governAgents } from "../../src/adapters/openaiAgents.ts"
import { governIntervention } from "../../src/adapters/strands.ts"
import type { CountersignClient } from "../../src/client/connect/index.ts"
import * as adkModel from "../../test/adapters/adkModel.ts"
import * as strandsModel from "../../test/adapters/strandsModel.ts"

/** How to reach the service. */
export interface Gate {
  readonly client: CountersignClient
  readonly session: string
}

/** Runs an agent whose model asks for one call with this ID and then ends, without an adapter if there is no gate. */
type Run = (callId: string, gate: Gate | undefined) => Promise<unknown>

const inputSchema = z.object({ amount: z.number() })
const execute = async ({ amount }: { readonly amount: number }) => ({ refunded: amount })
const prompt = "Refund it"

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

/** A model of the AI SDK, which Mastra takes too. */
const scriptedModel = (toolCallId: string) => {
  const calls = {
    content: [{ type: "tool-call" as const, toolCallId, toolName: "refund", input: '{"amount":50}' }],
    finishReason: { unified: "tool-calls" as const, raw: undefined }
  }
  const ends = {
    content: [{ type: "text" as const, text: "Done" }],
    finishReason: { unified: "stop" as const, raw: undefined }
  }
  const next = (messages: ReadonlyArray<{ readonly role: string }>) =>
    messages.some(({ role }) => role === "tool") ? ends : calls
  return new MockLanguageModelV4({
    doGenerate: async (options) => ({ ...next(options.prompt), usage, warnings: [] }),
    doStream: async (options) => {
      const { content, finishReason } = next(options.prompt)
      const [part] = content
      return {
        stream: convertArrayToReadableStream([
          { type: "stream-start" as const, warnings: [] },
          ...(part?.type === "tool-call"
            ? [part]
            : [
                { type: "text-start" as const, id: "1" },
                { type: "text-delta" as const, id: "1", delta: "Done" },
                { type: "text-end" as const, id: "1" }
              ]),
          { type: "finish" as const, usage, finishReason }
        ])
      }
    }
  })
}

const runAiSdk: Run = (callId, gate) => {
  const tools = { refund: tool({ inputSchema, execute }) }
  return generateText({
    model: scriptedModel(callId),
    prompt,
    stopWhen: isStepCount(2),
    tools: gate === undefined ? tools : aiSdk.governTools(tools, gate)
  })
}

const runLangchain: Run = (callId, gate) => {
  const refund = langchainTool(async (input) => JSON.stringify(await execute(input)), {
    name: "refund",
    schema: inputSchema
  })
  const agent = createAgent({
    model: fakeModel()
      .respondWithTools([{ id: callId, name: "refund", args: { amount: 50 } }])
      .respond(new AIMessage("Done")),
    tools: [refund],
    middleware: gate === undefined ? [] : [governMiddleware({ ...gate, ToolMessage })]
  })
  return agent.invoke({ messages: [{ role: "user", content: prompt }] })
}

const runMastra: Run = (callId, gate) => {
  const tools = { refund: createTool({ id: "refund", description: "Refunds", inputSchema, execute }) }
  const agent = new Agent({
    id: "refunds",
    name: "Refunds",
    instructions: prompt,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Mastra takes models of the AI SDK, but declares `doGenerate` as its own wrapper has it
    model: scriptedModel(callId) as unknown as MastraModelConfig,
    tools: gate === undefined ? tools : mastra.governTools(tools, gate)
  })
  return agent.generate(prompt, { maxSteps: 2 })
}

const runOpenAi: Run = (callId, gate) => {
  openai.setTracingDisabled(true)
  const { run, tool } = gate === undefined ? openai : governAgents(openai, gate)
  const agent = new openai.Agent({
    name: "Refunds",
    model: new ScriptedModel([
      modelResponse([functionCall("refund", { amount: 50 }, { callId })]),
      modelResponse([openai.assistant("Done")])
    ]),
    tools: [tool({ name: "refund", description: "Refunds", parameters: inputSchema, execute })]
  })
  return run(agent, prompt)
}

const runAdk: Run = async (callId, gate) => {
  setLogLevel(LogLevel.ERROR)
  const model = new adkModel.ScriptedModel([[{ id: callId, tool: "refund", arguments: { amount: 50 } }]])
  const refund = new FunctionTool({
    name: "refund",
    description: "Refunds",
    parameters: inputSchema,
    execute
  })
  const runner = new Runner({
    appName: "refunds",
    agent: new LlmAgent({ name: "refunds", model, tools: [refund] }),
    sessionService: new InMemorySessionService(),
    plugins: gate === undefined ? [] : [governPlugin(gate)]
  })
  const newMessage = { role: "user", parts: [{ text: prompt }] }
  const events: Array<unknown> = []
  for await (const event of runner.runEphemeral({ userId: "ada", newMessage })) events.push(event)
  return events
}

const runStrands: Run = (callId, gate) => {
  const agent = new strands.Agent({
    model: new strandsModel.ScriptedModel([[{ id: callId, tool: "refund", arguments: { amount: 50 } }]]),
    tools: [
      strands.tool({
        name: "refund",
        description: "Refunds",
        inputSchema,
        callback: async (input) => JSON.stringify(await execute(input))
      })
    ],
    interventions: gate === undefined ? [] : [governIntervention(gate)],
    printer: false
  })
  return agent.invoke(prompt)
}

/** The hooks alone: Claude Code, which calls them, needs a model. */
const runClaudeHooks: Run = async (callId, gate) => {
  const tool_input = { amount: 50 }
  const call = { session_id: "a7b1", tool_name: "refund", tool_input, tool_use_id: callId }
  const options = { signal: new AbortController().signal }
  const { PostToolUse = [], PreToolUse = [] } = gate === undefined ? {} : governHooks(gate)
  for (const { hooks } of PreToolUse)
    for (const hook of hooks) await hook({ ...call, hook_event_name: "PreToolUse" }, callId, options)
  const tool_response = await execute(tool_input)
  for (const { hooks } of PostToolUse)
    for (const hook of hooks)
      await hook({ ...call, hook_event_name: "PostToolUse", tool_response }, callId, options)
  return tool_response
}

export const runs: Readonly<Record<string, Run>> = {
  adk: runAdk,
  "ai-sdk": runAiSdk,
  "claude-agent": runClaudeHooks,
  langchain: runLangchain,
  mastra: runMastra,
  "openai-agents": runOpenAi,
  strands: runStrands
}
