import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { governPlugin } from "../../src/adapters/adk.ts"
import { governTools as governAiSdkTools } from "../../src/adapters/aiSdk.ts"
import { governHooks, type HookInput } from "../../src/adapters/claudeAgent.ts"
import { governMiddleware } from "../../src/adapters/langchain.ts"
import { governTools as governMastraTools } from "../../src/adapters/mastra.ts"
import { governAgents } from "../../src/adapters/openaiAgents.ts"
import { governIntervention } from "../../src/adapters/strands.ts"
import type { GateFault, GateSettings } from "../../src/adapters/toolGate/publicTypes.ts"
import { service } from "../support/service.ts"
import { governedRun } from "./governedRun.ts"

type Gate = Pick<GateSettings, "client" | "onFault"> & { readonly session: string }

const { signal } = new AbortController()
const execute = (): never => assert.fail("executed")
const refusal = "refused to judge this call"

class Message {
  readonly content: string
  constructor({ content }: { readonly content: string }) {
    this.content = content
  }
}

/** What a tool's `execute` throws. */
const thrownBy = async (call: () => unknown): Promise<string> => {
  try {
    return `returned ${String(await call())}`
  } catch (error) {
    return String(error)
  }
}

const byHook = async (gate: Gate, input: Omit<HookInput, "hook_event_name">): Promise<string> => {
  const [matcher] = governHooks(gate).PreToolUse
  const [hook] = matcher?.hooks ?? []
  const output = await hook?.({ hook_event_name: "PreToolUse", ...input }, undefined, { signal })
  const { permissionDecision, permissionDecisionReason } = output?.hookSpecificOutput ?? {}
  return `${permissionDecision} ${permissionDecisionReason}`
}

/** Calls of `read`, which a rule allows, whose ID or name is not there: what the model is told. */
const calls: Readonly<Record<string, (gate: Gate) => Promise<string>>> = {
  adk: async (gate) =>
    JSON.stringify(
      await governPlugin(gate).beforeToolCallback({
        tool: { name: "read" },
        toolArgs: {},
        toolContext: { invocationId: "i", sessionId: "s", userId: "u" }
      })
    ),
  aiSdk: (gate) => {
    const { read } = governAiSdkTools({ read: { execute } }, gate)
    return thrownBy(() => Reflect.apply(read.execute, read, [{}, { toolCallId: "", messages: [] }]))
  },
  "claudeAgent without an ID": (gate) => byHook(gate, { tool_name: "read", tool_input: {} }),
  "claudeAgent with a number as the ID": (gate) =>
    byHook(gate, { tool_name: "read", tool_use_id: 7, tool_input: {} }),
  "claudeAgent without a name": (gate) => byHook(gate, { tool_use_id: "toolu_1", tool_input: {} }),
  "claudeAgent with an object as the name": (gate) =>
    byHook(gate, { tool_name: { name: "read" }, tool_use_id: "toolu_2", tool_input: {} }),
  langchain: async (gate) => {
    const result = await governMiddleware({ ...gate, ToolMessage: Message }).wrapToolCall(
      { toolCall: { name: "read", args: {} }, tool: undefined, state: undefined, runtime: {} },
      execute
    )
    return result.content
  },
  mastra: (gate) => {
    const { read } = governMastraTools({ read: { execute } }, gate)
    return thrownBy(() => Reflect.apply(read.execute, read, [{}]))
  },
  openaiAgents: async (gate) => {
    const governed = governAgents({ tool: (definition: object) => definition, run: async () => ({}) }, gate)
    const read = governed.tool({ name: "read", execute })
    const run = { context: undefined }
    assert.isTrue(await Reflect.apply(Reflect.get(read, "needsApproval"), read, [run, {}]))
    return String(await Reflect.apply(Reflect.get(read, "execute"), read, [{}, run]))
  },
  strands: async (gate) => {
    const result = await governIntervention(gate).beforeToolCall({
      agent: { cancelSignal: signal, takeSnapshot: () => ({ data: {} }) },
      invocationState: {},
      tool: undefined,
      toolUse: { toolUseId: "", name: "read", input: {} },
      interrupt: () => undefined
    })
    return JSON.stringify(result)
  }
}

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })(
  "a call without its ID or name",
  (it) => {
    for (const [name, call] of Object.entries(calls)) {
      it.effect(`is denied: ${name}`, () =>
        Effect.gen(function* () {
          const { client, outcomes, session } = yield* governedRun(`unnamed ${name}`)
          const faults: Array<GateFault> = []
          yield* Effect.promise(async () => {
            const told = await call({ client, session, onFault: (fault) => faults.push(fault) })
            assert.include(told, refusal)
            assert.isNotEmpty(faults)
            assert.deepStrictEqual(await outcomes(), [])
          })
        })
      )
    }
  }
)
