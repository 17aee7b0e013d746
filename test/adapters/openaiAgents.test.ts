import { assert, layer } from "@effect/vitest"
import * as agents from "@openai/agents-core"
import { Effect } from "effect"
import * as lowestAgents from "openai-agents-core-lowest"
import * as lowestSandbox from "openai-agents-core-lowest/sandbox"
import * as lowestTesting from "openai-agents-core-lowest/testing"
import { z } from "zod"
import { governAgents } from "../../src/adapters/openaiAgents.ts"
import { service } from "../support/service.ts"
import { adapterContract, type AdapterRun, type Driver, TOOLS } from "./adapterContract.ts"
import { governedRun } from "./governedRun.ts"
import { newest, scriptedModel, type Sdk, toldAbout } from "./openaiAgentsModel.ts"

agents.setTracingDisabled(true)
lowestAgents.setTracingDisabled(true)

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its classes have private fields, so their types are others
const lowest = { ...lowestAgents, ...lowestSandbox, ...lowestTesting } as unknown as Sdk

const toolsOf = (tool: Sdk["tool"], execute: AdapterRun["execute"]) =>
  TOOLS.map((name) =>
    tool({
      name,
      description: name,
      parameters: z.object({ amount: z.coerce.number() }),
      execute: (input) => execute(name, input),
      errorFunction: (_context, error) => String(error)
    })
  )

const driver =
  (sdk: Sdk): Driver =>
  async ({ execute, gate, responses, signal }) => {
    const { run, tool } = governAgents(sdk, gate)
    const agent = new sdk.Agent({
      name: "Refunds",
      model: scriptedModel(sdk, responses),
      tools: toolsOf(tool, execute)
    })
    const result = await run(agent, "Refund it", signal === undefined ? {} : { signal })
    return toldAbout(result.history)
  }

const refund = (id: string, amount = 50) => ({ id, tool: "refund", arguments: { amount } })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("openaiAgents", (it) => {
  const versions = [
    ["newest", newest],
    ["lowest", lowest]
  ] as const
  for (const [version, sdk] of versions) {
    adapterContract(it, version, driver(sdk))

    const test = (
      title: string,
      body: (run: Effect.Success<ReturnType<typeof governedRun>>) => Promise<void>
    ) =>
      it.effect(`${version} › ${title}`, () =>
        Effect.flatMap(governedRun(`${version} ${title}`.slice(0, 100)), (run) =>
          Effect.promise(() => body(run))
        )
      )

    test("saves the state before a person decides, and resumes it in another process", async (governed) => {
      const { client, decide, outcomes, session } = governed
      const executed: Array<string> = []
      const saved: Array<string> = []
      // What another process would make anew.
      const start = () => {
        const { run, tool } = governAgents(sdk, { client, session, save: (state) => void saved.push(state) })
        const model = scriptedModel(sdk, [[{ ...refund("call_1", 1), tool: "read" }, refund("call_2")]])
        const agent = new sdk.Agent({
          name: "Refunds",
          model,
          tools: toolsOf(tool, (name) => executed.push(name))
        })
        return { agent, model, run }
      }
      const first = start()
      const aborting = new AbortController()
      const running = first.run(first.agent, "Refund it", { signal: aborting.signal }).catch(() => "aborted")
      while (saved.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
      aborting.abort()
      assert.strictEqual(await running, "aborted")
      await decide("approve", "refund")

      const second = start()
      const state = await sdk.RunState.fromString<undefined, typeof second.agent>(second.agent, saved[0]!)
      const { finalOutput } = await second.run(second.agent, state)
      assert.strictEqual(finalOutput, "Done")
      assert.deepStrictEqual(executed, ["read", "refund"])
      // Only the response after the calls.
      assert.strictEqual(second.model.calls.length, 1)
      assert.lengthOf(saved, 1)

      // The process was killed between the outcome and the next state.
      const third = start()
      const again = await sdk.RunState.fromString<undefined, typeof third.agent>(third.agent, saved[0]!)
      const { history } = await third.run(third.agent, again)
      assert.include(toldAbout(history).get("call_2"), "executed before")
      assert.lengthOf(executed, 2)
      assert.lengthOf(await outcomes(), 2)
    })

    test("returns the interruptions that nobody decided within the timeout", async ({
      client,
      decide,
      session
    }) => {
      const { decide: decideRun, run, tool } = governAgents(sdk, { client, session, timeout: "50 millis" })
      const agent = new sdk.Agent({
        name: "Refunds",
        model: scriptedModel(sdk, [[refund("call_1"), refund("call_2", 60)]]),
        tools: toolsOf(tool, () => "refunded")
      })
      const waiting = await run(agent, "Refund it")
      assert.lengthOf(waiting.interruptions, 2)
      assert.isFalse(await decideRun(waiting, { wait: false }))
      await decide("reject", "refund", { arguments: { amount: 50 } })
      assert.isFalse(await decideRun(waiting, { wait: false }))
      await decide("approve", "refund", { arguments: { amount: 60 } })
      const { finalOutput, history } = await run(agent, waiting.state)
      assert.strictEqual(finalOutput, "Done")
      assert.include(toldAbout(history).get("call_1"), "A person rejected")
      assert.strictEqual(toldAbout(history).get("call_2"), "refunded")
    })

    test("does not execute what was approved in the state alone", async ({ client, session }) => {
      const { tool } = governAgents(sdk, { client, session })
      const agent = new sdk.Agent({
        name: "Refunds",
        model: scriptedModel(sdk, [[refund("call_1")]]),
        tools: toolsOf(tool, () => assert.fail("executed"))
      })
      const { interruptions, state } = await sdk.run(agent, "Refund it")
      for (const item of interruptions) state.approve(item)
      const { history } = await sdk.run(agent, state)
      assert.include(toldAbout(history).get("call_1"), "waits for a person")
    })

    test("decides the interruptions of a streamed run", async ({ client, decide, session }) => {
      const { decide: decideRun, run, tool } = governAgents(sdk, { client, session })
      const agent = new sdk.Agent({
        name: "Refunds",
        model: scriptedModel(sdk, [[refund("call_1")]]),
        tools: toolsOf(tool, () => "refunded")
      })
      const stream = await run(agent, "Refund it", { stream: true })
      await stream.completed
      assert.lengthOf(stream.interruptions, 1)
      const deciding = decideRun(stream)
      await decide("approve", "refund")
      assert.isTrue(await deciding)
      const resumed = await run(agent, stream.state, { stream: true })
      await resumed.completed
      assert.strictEqual(resumed.finalOutput, "Done")
    })

    test("governs the tools of an agent that is a tool, and leaves other interruptions to the caller", async ({
      client,
      decide,
      session
    }) => {
      const { run, tool } = governAgents(sdk, { client, session, ungoverned: ["refunds", "own"] })
      const inner = new sdk.Agent({
        name: "Refunds",
        model: scriptedModel(sdk, [[refund("inner_1")]]),
        tools: toolsOf(tool, () => "refunded")
      })
      const outer = new sdk.Agent({
        name: "Support",
        model: scriptedModel(sdk, [
          [{ id: "outer_1", tool: "refunds", arguments: { input: "Refund it" } }],
          [{ id: "outer_2", tool: "own", arguments: {} }]
        ]),
        tools: [
          inner.asTool({ toolName: "refunds", toolDescription: "Refunds" }),
          sdk.tool({
            name: "own",
            description: "own",
            parameters: z.object({}),
            needsApproval: true,
            execute: () => "own"
          })
        ]
      })
      const running = run(outer, "Refund it")
      await decide("approve", "refund")
      const { interruptions, state } = await running
      assert.deepStrictEqual(
        interruptions.map(({ name }) => name),
        ["own"]
      )
      for (const item of interruptions) state.approve(item)
      const { finalOutput, history } = await run(outer, state)
      assert.strictEqual(finalOutput, "Done")
      assert.strictEqual(toldAbout(history).get("outer_1"), "Done")
      assert.strictEqual(toldAbout(history).get("outer_2"), "own")
    })

    test("does not run an agent with a tool or an MCP server that is neither governed nor listed, also after a handoff", async ({
      client,
      outcomes,
      session
    }) => {
      const executed: Array<string> = []
      const own = sdk.tool({
        name: "own",
        description: "own",
        parameters: z.object({}),
        execute: () => executed.push("own")
      })
      const server: agents.MCPServer = {
        name: "orders",
        cacheToolsList: false,
        connect: async () => undefined,
        close: async () => undefined,
        invalidateToolsCache: async () => undefined,
        listTools: async () => [
          {
            name: "cancel",
            inputSchema: { type: "object", properties: {}, required: [], additionalProperties: false }
          }
        ],
        callTool: async (name) => {
          executed.push(name)
          return [{ type: "text", text: "cancelled" }]
        }
      }
      const start = (ungoverned: ReadonlyArray<string>) => {
        const { run, tool } = governAgents(sdk, { client, session, ungoverned })
        const tools = toolsOf(tool, () => assert.fail("executed"))
        const calls = [
          { id: "call_2", tool: "own", arguments: {} },
          { id: "call_3", tool: "cancel", arguments: {} }
        ]
        const second = new sdk.Agent({
          name: "Second",
          model: scriptedModel(sdk, [calls]),
          tools: [...tools, own],
          mcpServers: [server]
        })
        const third = new sdk.Agent({
          name: "Third",
          handoffs: [second],
          tools: [{ type: "hosted_tool", name: "web_search" }]
        })
        second.handoffs = [sdk.handoff(third)]
        const first = new sdk.Agent({
          name: "First",
          model: scriptedModel(sdk, [[{ id: "call_1", tool: "transfer_to_Second", arguments: {} }]]),
          tools,
          handoffs: [second]
        })
        return run(first, "Refund it")
      }
      const error = await start(["web_search"]).catch((error: unknown) => error)
      assert.include(String(error), '"own", "orders" can make calls that Countersign does not govern')
      assert.deepStrictEqual(executed, [])
      const { finalOutput } = await start(["own", "orders", "web_search"])
      assert.strictEqual(finalOutput, "Done")
      assert.deepStrictEqual(executed.toSorted(), ["cancel", "own"])
      assert.deepStrictEqual(await outcomes(), [])
    })

    test("does not run a sandbox's agent whose capabilities are not listed", async ({ client, session }) => {
      const { run } = governAgents(sdk, { client, session })
      const agent = new sdk.SandboxAgent({ name: "Shell", model: scriptedModel(sdk, []) })
      const error = await run(agent, "Refund it").catch((error: unknown) => error)
      assert.match(String(error), /"shell".* can make calls that Countersign does not govern/u)
    })

    test("keeps runs apart whose model numbers its calls anew", async ({ client, decide, session }) => {
      const { session_id: other } = await client.sessions.create()
      const { run, tool } = governAgents(sdk, {
        client,
        session: ({ context }: agents.RunContext<{ readonly session: string }>) => context.session
      })
      const start = (session: string, amount: number) => {
        const agent = new sdk.Agent<{ readonly session: string }>({
          name: "Refunds",
          model: scriptedModel(sdk, [[refund("call_0", amount)]]),
          tools: toolsOf(tool, (_name, input) => `refunded ${input.amount}`)
        })
        return run(agent, "Refund it", { context: { session } })
      }
      const running = [start(session, 50), start(other, 60)]
      await decide("approve", "refund", { arguments: { amount: 60 } })
      await decide("approve", "refund", { arguments: { amount: 50 } })
      const told = (await Promise.all(running)).map(({ history }) => toldAbout(history).get("call_0"))
      assert.deepStrictEqual(told, ["refunded 50", "refunded 60"])
    })
  }
})

/** Both versions accept what the adapter returns, with the types of their own functions. */
export const typeChecks = (gate: Parameters<typeof governAgents>[1]) => {
  const parameters = z.object({ amount: z.number() })
  const execute = ({ amount }: { readonly amount: number }) => amount
  const governed = governAgents(agents, gate)
  const governedLowest = governAgents(lowestAgents, gate)
  const options = { name: "refund", description: "Refunds", parameters, execute }
  return [
    governed.run(new agents.Agent({ name: "Refunds", tools: [governed.tool(options)] }), "Refund it"),
    governedLowest.run(
      new lowestAgents.Agent({ name: "Refunds", tools: [governedLowest.tool(options)] }),
      "Refund it"
    )
  ]
}
