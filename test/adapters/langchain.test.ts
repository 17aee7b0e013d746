import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as newest from "langchain"
import * as lowest from "langchain-lowest"
import {
  Command,
  GraphDrained,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph
} from "@langchain/langgraph"
import { createDeepAgent, type SubAgent } from "deepagents"
import { z } from "zod"
import { governMiddleware } from "../../src/adapters/langchain.ts"
import { service } from "../support/service.ts"
import { type AdapterRun, adapterContract, type Driver, TOOLS } from "./adapterContract.ts"
import { governedRun } from "./governedRun.ts"
import { PROMPT, scriptedChatModel } from "./langchainModel.ts"

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

const input = { messages: [{ role: "user", content: PROMPT }] }

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

  const inner = { id: "inner_1", tool: "read", arguments: { amount: 50 } }

  /** Runs an agent whose tool runs another agent. Returns what the models were told about their calls, and the executed calls of the other. */
  const delegates = async (
    { client, session }: Effect.Success<ReturnType<typeof governedRun>>,
    options: { readonly isGoverned: boolean; readonly ungoverned?: ReadonlyArray<string> }
  ) => {
    const { createAgent, tool, ToolMessage } = newest
    const executed: Array<number> = []
    const told: Array<string | undefined> = []
    const read = tool(({ amount }: { amount: number }) => `read ${executed.push(amount)}`, {
      name: "read",
      schema
    })
    const helper = createAgent({
      model: scriptedChatModel([[inner]]),
      tools: [read],
      middleware: options.isGoverned ? [governMiddleware({ client, session, ToolMessage })] : []
    })
    const help = async () => {
      told.push(toldAbout((await helper.invoke(input)).messages).get("inner_1"))
      return "helped"
    }
    const agent = createAgent({
      model: scriptedChatModel([[{ ...inner, id: "outer_1" }]]),
      tools: [tool(help, { name: "read", schema })],
      middleware: [governMiddleware({ client, session, ToolMessage, ungoverned: options.ungoverned ?? [] })]
    })
    told.push(toldAbout((await agent.invoke(input)).messages).get("outer_1"))
    return { executed, told }
  }

  it.effect("refuses a call inside a tool by an agent without the middleware", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("langchain inner agent")
      yield* Effect.promise(async () => {
        const { executed, told } = await delegates(run, { isGoverned: false })
        assert.deepStrictEqual(executed, [])
        assert.include(told[0], '"read" can make calls that Countersign does not govern')
        assert.strictEqual(told[1], "helped")
      })
    })
  )

  it.effect("asks about a call inside a tool by an agent with the middleware", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("langchain governed inner agent")
      yield* Effect.promise(async () => {
        const { executed, told } = await delegates(run, { isGoverned: true })
        assert.deepStrictEqual(executed, [50])
        assert.deepStrictEqual(told, ["read 1", "helped"])
        assert.deepStrictEqual(await run.outcomes(), [
          { step_id: "inner_1", tool: "read", status: "succeeded" },
          { step_id: "outer_1", tool: "read", status: "succeeded" }
        ])
      })
    })
  )

  it.effect("does not look inside a tool that is listed as ungoverned", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("langchain ungoverned inner agent")
      yield* Effect.promise(async () => {
        const { executed } = await delegates(run, { isGoverned: false, ungoverned: ["read"] })
        assert.deepStrictEqual(executed, [50])
        assert.deepStrictEqual(await run.outcomes(), [
          { step_id: "outer_1", tool: "read", status: "succeeded" }
        ])
      })
    })
  )

  it.effect("lets a tool call another tool itself", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("langchain inner tool")
      const { createAgent, tool, ToolMessage } = newest
      const part = tool(({ amount }: { amount: number }) => `part of ${amount}`, { name: "part", schema })
      const agent = createAgent({
        model: scriptedChatModel([[inner]]),
        tools: [tool((given: { amount: number }) => part.invoke(given), { name: "read", schema })],
        middleware: [governMiddleware({ client, session, ToolMessage })]
      })
      yield* Effect.promise(async () => {
        const { messages } = await agent.invoke(input)
        assert.strictEqual(toldAbout(messages).get("inner_1"), "part of 50")
      })
    })
  )

  it.effect("refuses the calls of the agent that deepagents adds, unless it gets the middleware", () =>
    Effect.gen(function* () {
      const { client, decide, outcomes, session } = yield* governedRun("deepagents")
      const executed: Array<number> = []
      const refund = newest.tool(({ amount }: { amount: number }) => `refund ${executed.push(amount)}`, {
        name: "forbidden",
        schema
      })
      const govern = governMiddleware({ client, session, ToolMessage: newest.ToolMessage })
      const delegate = async (subagents: ReadonlyArray<SubAgent>, id: string) => {
        const task = { description: "Refund order 4711", subagent_type: "general-purpose" }
        const model = scriptedChatModel(
          [[{ id, tool: "task", arguments: task }]],
          [[{ ...inner, id: `${id} inner`, tool: "forbidden" }]]
        )
        const agent = createDeepAgent({
          model,
          tools: [refund],
          middleware: [govern],
          subagents: [...subagents]
        })
        const running = agent.invoke(input)
        await decide("approve", "task")
        return toldAbout((await running).messages).get(id)
      }
      yield* Effect.promise(async () => {
        assert.include(await delegate([], "call_1"), '"task" can make calls that Countersign does not govern')
        const named = {
          name: "general-purpose",
          description: "All",
          systemPrompt: "Help",
          middleware: [govern]
        }
        assert.include(await delegate([named], "call_2"), "Done")
        assert.deepStrictEqual(executed, [])
        assert.deepStrictEqual(await outcomes(), [
          { step_id: "call_1", tool: "task", status: "failed" },
          { step_id: "call_2", tool: "task", status: "succeeded" }
        ])
      })
    })
  )

  it.effect("records a tool that ends with a command for its agent's graph as succeeded", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("langchain command")
      const { createAgent, tool, ToolMessage } = newest
      const answer = new ToolMessage({ content: "handed back", tool_call_id: inner.id })
      const helper = new StateGraph(MessagesAnnotation)
        .addNode("help", () => new Command({ graph: Command.PARENT, update: { messages: [answer] } }))
        .addEdge(START, "help")
        .compile()
      const agent = createAgent({
        model: scriptedChatModel([[inner]]),
        tools: [tool(async () => JSON.stringify(await helper.invoke(input)), { name: "read", schema })],
        middleware: [governMiddleware({ client, session, ToolMessage })]
      })
      yield* Effect.promise(async () => {
        const { messages } = await agent.invoke(input)
        assert.strictEqual(toldAbout(messages).get(inner.id), "handed back")
        assert.strictEqual(messages.at(-1)?.text, "Done")
        assert.deepStrictEqual(await outcomes(), [{ step_id: inner.id, tool: "read", status: "succeeded" }])
      })
    })
  )

  it.effect(
    "does not record a tool as ended that interrupts the graph, and does not ask again when it resumes",
    () =>
      Effect.gen(function* () {
        const { client, outcomes, session } = yield* governedRun("langchain tool interrupts")
        const { createAgent, tool, ToolMessage } = newest
        const sent: Array<string> = []
        const reportOutcome: typeof client.sessions.reportOutcome = (...given) => {
          sent.push("report")
          return client.sessions.reportOutcome(...given)
        }
        const sessions = { ...client.sessions, reportOutcome }
        const agent = createAgent({
          model: scriptedChatModel([[inner]]),
          tools: [tool(() => `code ${String(interrupt("Which code?"))}`, { name: "read", schema })],
          middleware: [governMiddleware({ client: { ...client, sessions }, session, ToolMessage })],
          checkpointer: new MemorySaver()
        })
        const config = { configurable: { thread_id: "1" } }
        yield* Effect.promise(async () => {
          const paused: object = await agent.invoke(input, config)
          assert.property(paused, "__interrupt__")
          assert.deepStrictEqual(sent, [])
          const { messages } = await agent.invoke(new Command({ resume: "1234" }), config)
          assert.strictEqual(toldAbout(messages).get(inner.id), "code 1234")
          assert.deepStrictEqual(await outcomes(), [{ step_id: inner.id, tool: "read", status: "succeeded" }])
        })
      })
  )

  it.effect("keeps the claim of a tool whose graph was drained until it resumes", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("langchain drained")
      const middleware = governMiddleware({ client, session, ToolMessage: newest.ToolMessage })
      const toolCall = { id: "call_1", name: "read", args: { amount: 50 } }
      const request = { toolCall, tool: undefined, state: {}, runtime: {} }
      const drained = new GraphDrained()
      yield* Effect.promise(async () => {
        const running = middleware.wrapToolCall(request, () => Promise.reject(drained))
        assert.strictEqual(await running.catch((error: unknown) => error), drained)
        assert.strictEqual(await middleware.wrapToolCall(request, () => "done"), "done")
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
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
