import {
  AgentTool,
  type BasePlugin,
  FunctionTool,
  InMemorySessionService,
  LlmAgent,
  LogLevel,
  Runner,
  setLogLevel
} from "@google/adk"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { z } from "zod"
import type { Part } from "@google/genai"
import { governPlugin } from "../../src/adapters/adk.ts"
import { makeToolGate } from "../../src/adapters/toolGate.ts"
import { service } from "../support/service.ts"
import { adapterContract, type AdapterRun, type Driver, TOOLS } from "./adapterContract.ts"
import { ScriptedModel } from "./adkModel.ts"
import { governedRun } from "./governedRun.ts"

setLogLevel(LogLevel.ERROR)

const toolsOf = (execute: AdapterRun["execute"]) =>
  TOOLS.map(
    (name) =>
      new FunctionTool({
        name,
        description: name,
        parameters: z.object({ amount: z.coerce.number() }),
        execute: async (input) => execute(name, input)
      })
  )

const runAgent = async (
  {
    execute,
    gate,
    responses,
    signal
  }: Omit<AdapterRun, "gate"> & { readonly gate: Parameters<typeof governPlugin>[0] },
  agent: object = {},
  errors: Array<string> = []
) => {
  const model = new ScriptedModel(responses)
  const sessionService = new InMemorySessionService()
  const runner = new Runner({
    appName: "refunds",
    agent: new LlmAgent({ name: "refunds", model, tools: toolsOf(execute), ...agent }),
    sessionService,
    plugins: [governPlugin(gate)]
  })
  const { id } = await sessionService.createSession({ appName: "refunds", userId: "ada" })
  const newMessage = { role: "user", parts: [{ text: "Refund it" }] }
  const abort = signal === undefined ? {} : { abortSignal: signal }
  const runConfig = { maxLlmCalls: responses.length + 1 }
  for await (const { errorMessage } of runner.runAsync({
    userId: "ada",
    sessionId: id,
    newMessage,
    runConfig,
    ...abort
  })) {
    if (errorMessage !== undefined) errors.push(errorMessage)
  }
  return model.told
}

const driver: Driver = (run) => runAgent(run)

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("adk", (it) => {
  adapterContract(it, "governPlugin", driver)

  const inner = { id: "inner_1", tool: "forbidden", arguments: { amount: 50 } }
  const outer = { id: "outer_1", tool: "read", arguments: { amount: 1 } }

  it.effect("governs the calls of an agent as a tool, and of agents as tools inside it", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("adk agent tool")
      yield* Effect.promise(async () => {
        const execute = () => assert.fail("executed")
        const innermost = new ScriptedModel([[inner]])
        const refunds = new LlmAgent({ name: "read", model: innermost, tools: toolsOf(execute) })
        const middle = new LlmAgent({
          name: "read",
          model: new ScriptedModel([[{ ...outer, id: "middle_1" }]]),
          tools: [new AgentTool({ agent: refunds })]
        })
        const run = { gate: { client, session }, responses: [[outer]], execute }
        const told = await runAgent(run, { tools: [new AgentTool({ agent: middle })] })
        assert.include(innermost.told.get("inner_1"), "A rule rejected this call")
        assert.include(told.get("outer_1"), "Done")
        assert.deepStrictEqual(await outcomes(), [
          { step_id: "middle_1", tool: "read", status: "succeeded" },
          { step_id: "outer_1", tool: "read", status: "succeeded" }
        ])
        // The agents themselves are unchanged, so that another runner can use them with other plugins.
        assert.isFalse(Object.hasOwn(refunds, "runAsync"))
      })
    })
  )

  it.effect("refuses an agent as a tool whose plugins it cannot add to, if it is not listed", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("adk hidden agent tool")
      const tool = new AgentTool({ agent: new LlmAgent({ name: "read", model: new ScriptedModel([]) }) })
      const toolContext = { invocationId: "i", sessionId: "s", userId: "u", functionCallId: "call_1" }
      yield* Effect.promise(async () => {
        const call = { tool, toolArgs: {}, toolContext }
        const refused = await governPlugin({ client, session }).beforeToolCallback(call)
        assert.include(JSON.stringify(refused), "can make calls that Countersign does not govern")
        const listed = governPlugin({ client, session, ungoverned: ["read"] })
        assert.isUndefined(await listed.beforeToolCallback(call))
        assert.deepStrictEqual(await outcomes(), [])
      })
    })
  )

  it.effect("sends the defaults of a schema, and refuses arguments that do not match it", () =>
    Effect.gen(function* () {
      const { client, decide, outcomes, session } = yield* governedRun("adk defaults")
      yield* Effect.promise(async () => {
        const executed: Array<unknown> = []
        const tool = new FunctionTool({
          name: "refund",
          description: "Refunds",
          parameters: z.object({ amount: z.coerce.number(), to: z.string().default("card") }),
          execute: async (input) => {
            executed.push(input)
          }
        })
        const calls = [
          { ...refund, arguments: { amount: "50" } },
          { ...refund, id: "call_2", arguments: { amount: "many" } }
        ]
        const run = { gate: { client, session }, responses: [calls], execute: () => undefined }
        const running = runAgent(run, { tools: [tool] })
        await decide("approve", "refund", { arguments: { amount: 50, to: "card" } })
        const told = await running
        assert.deepStrictEqual(executed, [{ amount: 50, to: "card" }])
        assert.include(told.get("call_2"), "do not match the tool's schema")
        assert.lengthOf(await outcomes(), 1)
      })
    })
  )

  it.effect("records a call of a tool that asks its user when the user has answered", () =>
    Effect.gen(function* () {
      const { client, executions, outcomes, session } = yield* governedRun("adk confirmation")
      yield* Effect.promise(async () => {
        const executed: Array<unknown> = []
        const tool = new FunctionTool({
          name: "read",
          description: "Reads",
          parameters: z.object({ amount: z.number() }),
          requireConfirmation: true,
          execute: async (input) => {
            executed.push(input)
            return { balance: 42 }
          }
        })
        const model = new ScriptedModel([
          [{ id: "call_1", tool: "read", arguments: { amount: 1 } }],
          [{ id: "call_2", tool: "read", arguments: { amount: 2 } }]
        ])
        const sessionService = new InMemorySessionService()
        const runner = new Runner({
          appName: "refunds",
          agent: new LlmAgent({ name: "refunds", model, tools: [tool] }),
          sessionService,
          plugins: [governPlugin({ client, session })]
        })
        const { id: sessionId } = await sessionService.createSession({ appName: "refunds", userId: "ada" })
        /** Sends a message, and returns the ID of the question that the kit asks the user. */
        const send = async (part: Part) => {
          let question = ""
          const newMessage = { role: "user", parts: [part] }
          for await (const { content } of runner.runAsync({ userId: "ada", sessionId, newMessage })) {
            for (const { functionCall } of content?.parts ?? []) {
              if (functionCall?.name === "adk_request_confirmation") question = functionCall.id ?? ""
            }
          }
          return question
        }
        const answer = (id: string, confirmed: boolean) =>
          send({ functionResponse: { id, name: "adk_request_confirmation", response: { confirmed } } })
        const first = await send({ text: "Read it" })
        assert.isNotEmpty(first)
        assert.deepStrictEqual(executed, [])
        const second = await answer(first, true)
        assert.isNotEmpty(second)
        await answer(second, false)
        assert.deepStrictEqual(executed, [{ amount: 1 }])
        assert.deepStrictEqual(await executions(), [])
        const again = await makeToolGate({ client, session }).ask(
          { id: "call_1", tool: "read", arguments: { amount: 1 } },
          undefined
        )
        assert.include(again.verdict === "deny" ? again.message : "", '{"balance":42}')
        assert.deepStrictEqual(await outcomes(), [
          { step_id: "call_1", tool: "read", status: "succeeded" },
          { step_id: "call_2", tool: "read", status: "failed" }
        ])
      })
    })
  )

  it.effect("keeps the claim of a call whose tool asks its user for a credential", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("adk credential")
      const plugin = governPlugin({ client, session })
      const tool = new FunctionTool({ name: "read", description: "Reads", execute: async () => "done" })
      const callOf = (invocationId: string, requestedAuthConfigs: object) => ({
        tool,
        toolArgs: {},
        toolContext: {
          invocationId,
          sessionId: "s",
          userId: "u",
          functionCallId: "call_1",
          actions: { requestedAuthConfigs, requestedToolConfirmations: {} }
        }
      })
      yield* Effect.promise(async () => {
        const asking = callOf("first", { call_1: {} })
        assert.isUndefined(await plugin.beforeToolCallback(asking))
        await plugin.afterToolCallback({ ...asking, result: undefined })
        const answered = callOf("second", {})
        assert.isUndefined(await plugin.beforeToolCallback(answered))
        await plugin.afterToolCallback({ ...answered, result: "done" })
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
      })
    })
  )

  const refund = { id: "call_1", tool: "refund", arguments: { amount: 50 } }

  it.effect("does not let a later callback change what was decided", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("adk frozen")
      yield* Effect.promise(async () => {
        const beforeToolCallback = ({ args }: { readonly args: Record<string, unknown> }) => {
          args["amount"] = 5_000
          return undefined
        }
        const run = {
          gate: { client, session },
          responses: [[{ ...refund, tool: "read" }]],
          execute: () => assert.fail("executed")
        }
        const errors: Array<string> = []
        await runAgent(run, { beforeToolCallback }, errors).catch(() => undefined)
        assert.include(errors[0], "read only")
        assert.deepStrictEqual(await outcomes(), [])
      })
    })
  )

  it.effect("leaves the other callbacks of a plugin to the kit, also those that later versions add", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("adk plugin")
      const plugin = governPlugin({ client, session })
      yield* Effect.promise(async () => {
        assert.isUndefined(await plugin.beforeRunCallback())
        const later: unknown = Reflect.get(plugin, "beforeEverythingCallback")
        assert.isFunction(later)
        // It is not taken for a promise.
        assert.isUndefined(Reflect.get(plugin, "then"))
      })
    })
  )
})

/** The kit accepts the plugin. */
export const typeCheck = (gate: Parameters<typeof governPlugin>[0]): BasePlugin => governPlugin(gate)
