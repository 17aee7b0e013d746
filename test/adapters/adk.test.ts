import {
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
import { governPlugin } from "../../src/adapters/adk.ts"
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
        parameters: z.object({ amount: z.number() }),
        execute: async (input) => execute(name, input)
      })
  )

const runAgent = async (
  { execute, gate, responses, signal }: AdapterRun,
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
  // A tool converts its arguments by its schema after all callbacks.
  adapterContract(it, "governPlugin", driver, { coerces: false })

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
