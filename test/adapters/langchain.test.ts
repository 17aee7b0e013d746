import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as newest from "langchain"
import * as lowest from "langchain-lowest"
import { Command, MemorySaver } from "@langchain/langgraph"
import { z } from "zod"
import { governMiddleware } from "../../src/adapters/langchain.ts"
import { service } from "../support/service.ts"
import { type AdapterRun, adapterContract, type Driver, TOOLS } from "./adapterContract.ts"
import { governedRun } from "./governedRun.ts"
import { scriptedChatModel } from "./langchainModel.ts"

const schema = z.object({ amount: z.coerce.number() })

const agentOf = (
  { createAgent, tool, ToolMessage }: typeof newest,
  run: AdapterRun,
  checkpointer?: MemorySaver
) =>
  createAgent({
    model: scriptedChatModel(run.responses),
    tools: TOOLS.map((name) =>
      tool(async (input: { amount: number }) => JSON.stringify(await run.execute(name, input)), {
        name,
        schema
      })
    ),
    middleware: [governMiddleware({ ...run.gate, ToolMessage, pause: checkpointer !== undefined })],
    ...(checkpointer === undefined ? {} : { checkpointer })
  })

const input = { messages: [{ role: "user", content: "Refund it" }] }

const toldAbout = (messages: ReadonlyArray<newest.BaseMessage>): Map<string, string> => {
  const told = new Map<string, string>()
  for (const message of messages) {
    if (newest.ToolMessage.isInstance(message)) told.set(message.tool_call_id, message.text)
  }
  return told
}

const invokes =
  (langchain: typeof newest): Driver =>
  async (run) => {
    const agent = agentOf(langchain, run)
    const { messages } = await agent.invoke(input, run.signal === undefined ? {} : { signal: run.signal })
    return toldAbout(messages)
  }

/** The graph is interrupted when a person has to decide, and goes on from its checkpoint. */
const pauses =
  (langchain: typeof newest): Driver =>
  async (run) => {
    const agent = agentOf(langchain, run, new MemorySaver())
    const config = {
      configurable: { thread_id: "1" },
      ...(run.signal === undefined ? {} : { signal: run.signal })
    }
    for (let state: typeof input | null = input; ; state = null) {
      const result = await agent.invoke(state, config)
      if (!("__interrupt__" in result)) return toldAbout(result.messages)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- types of another version; `acceptedByLowest` checks those that matter
const lowestAsNewest = lowest as unknown as typeof newest

/** Compiles if the parameters of both versions accept what the adapter returns. */
export const acceptedByNewest = ({ gate }: AdapterRun): unknown =>
  newest.createAgent({
    model: "any",
    tools: [newest.tool(() => "text", { name: "read", schema })],
    middleware: [governMiddleware({ ...gate, ToolMessage: newest.ToolMessage })]
  })
export const acceptedByLowest = ({ gate }: AdapterRun): unknown =>
  lowest.createAgent({
    model: "any",
    tools: [lowest.tool(() => "text", { name: "read", schema })],
    middleware: [governMiddleware({ ...gate, ToolMessage: lowest.ToolMessage })]
  })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("governMiddleware", (it) => {
  adapterContract(it, "createAgent", invokes(newest))
  adapterContract(it, "interrupt", pauses(newest), { waits: false })
  adapterContract(it, "the lowest createAgent", invokes(lowestAsNewest))
  adapterContract(it, "the lowest interrupt", pauses(lowestAsNewest), { waits: false })

  it.effect("refuses arguments that do not match the schema without asking anybody", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("langchain schema")
      const drive = invokes(newest)
      yield* Effect.promise(async () => {
        const told = await drive({
          gate: { client, session },
          responses: [[{ id: "call_1", tool: "refund", arguments: { amount: "many" } }]],
          execute: () => assert.fail("executed")
        })
        assert.match(told.get("call_1") ?? "", /do not match the tool's schema.*amount/u)
        assert.deepStrictEqual(await outcomes(), [])
      })
    })
  )

  it.effect("lets middleware retry a tool within an allowed call, and records how the call ended", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("langchain retries")
      let attempts = 0
      const read = newest.tool(
        () => {
          attempts++
          throw new Error("The bank is closed")
        },
        { name: "read", schema }
      )
      const agent = newest.createAgent({
        model: scriptedChatModel([[{ id: "call_1", tool: "read", arguments: { amount: 1 } }]]),
        tools: [read],
        contextSchema: z.object({ session: z.string() }),
        middleware: [
          governMiddleware({
            client,
            session: ({ runtime }) => z.object({ session: z.string() }).parse(runtime.context).session,
            ToolMessage: newest.ToolMessage
          }),
          newest.createMiddleware({
            name: "Retries",
            wrapToolCall: async (request, handler) => {
              for (let attempt = 1; attempt < 3; attempt++) {
                const result = await Promise.resolve(handler(request)).catch(() => undefined)
                if (result !== undefined) return result
              }
              return handler(request)
            }
          })
        ]
      })
      yield* Effect.promise(async () => {
        await agent.invoke(input, { context: { session } })
        assert.strictEqual(attempts, 3)
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "failed" }])
      })
    })
  )

  it.effect("waits for the decision if an interrupted graph is resumed with a value", () =>
    Effect.gen(function* () {
      const { client, decide, session } = yield* governedRun("langchain resume")
      const run: AdapterRun = {
        gate: { client, session },
        responses: [[{ id: "call_1", tool: "refund", arguments: { amount: 50 } }]],
        execute: () => "done"
      }
      const agent = agentOf(newest, run, new MemorySaver())
      const config = { configurable: { thread_id: "1" } }
      yield* Effect.promise(async () => {
        const paused: object = await agent.invoke(input, config)
        assert.property(paused, "__interrupt__")
        const running = agent.invoke(new Command({ resume: true }), config)
        await decide("reject", "refund")
        assert.include(toldAbout((await running).messages).get("call_1"), "A person rejected this call")
      })
    })
  )
})
