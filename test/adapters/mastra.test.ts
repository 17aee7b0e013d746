import { assert, layer } from "@effect/vitest"
import { Mastra } from "@mastra/core"
import * as newest from "@mastra/core/agent"
import type { MastraModelConfig } from "@mastra/core/llm"
import { InMemoryStore } from "@mastra/core/storage"
import * as newestTools from "@mastra/core/tools"
import * as newestWorkspace from "@mastra/core/workspace"
import { Effect } from "effect"
import * as lowestCore from "mastra-core-lowest"
import * as lowest from "mastra-core-lowest/agent"
import * as lowestStorage from "mastra-core-lowest/storage"
import * as lowestTools from "mastra-core-lowest/tools"
import * as lowestWorkspace from "mastra-core-lowest/workspace"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import { governProcessor, governTools } from "../../src/adapters/mastra.ts"
import { service } from "../support/service.ts"
import { type AdapterRun, adapterContract, type Driver, TOOLS } from "./adapterContract.ts"
import { scriptedModel, toldAbout } from "./aiSdkModel.ts"
import { governedRun } from "./governedRun.ts"

const inputSchema = z.object({ amount: z.coerce.number() })

/** The modules of one version. */
interface Version {
  readonly Agent: typeof newest.Agent
  readonly createTool: typeof newestTools.createTool
  readonly InMemoryStore: typeof InMemoryStore
  readonly LocalSandbox: typeof newestWorkspace.LocalSandbox
  readonly Mastra: typeof Mastra
  readonly Workspace: typeof newestWorkspace.Workspace
}

const newestVersion: Version = { ...newest, ...newestTools, ...newestWorkspace, InMemoryStore, Mastra }
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- types of another version; `acceptedByLowest` checks those that matter
const lowestVersion = {
  ...lowest,
  ...lowestTools,
  ...lowestWorkspace,
  InMemoryStore: lowestStorage.InMemoryStore,
  Mastra: lowestCore.Mastra
} as unknown as Version

const toolsOf = ({ createTool }: Version, execute: AdapterRun["execute"]) =>
  Object.fromEntries(
    TOOLS.map((name) => [
      name,
      createTool({ id: name, description: name, inputSchema, execute: async (input) => execute(name, input) })
    ])
  )

/** An agent with a scripted model, and what the model was told. */
const scriptedAgent = (
  { Agent }: Version,
  responses: Parameters<typeof scriptedModel>[0],
  config: Partial<ConstructorParameters<Version["Agent"]>[0]>
) => {
  const scripted = scriptedModel(responses)
  const agent = new Agent({
    id: "agent",
    name: "agent",
    instructions: "Refund it",
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Mastra takes models of the AI SDK, but declares `doGenerate` as its own wrapper has it
    model: scripted as unknown as MastraModelConfig,
    ...config
  })
  const told = () => toldAbout([...scripted.doGenerateCalls, ...scripted.doStreamCalls].at(-1)?.prompt ?? [])
  return { agent, told }
}

const agentOf = (version: Version, { execute, gate, responses }: AdapterRun, pause = false) =>
  scriptedAgent(version, responses, { tools: governTools(toolsOf(version, execute), { ...gate, pause }) })

const processedAgentOf = (version: Version, { execute, gate, responses }: AdapterRun) => ({
  ...scriptedAgent(version, responses, { inputProcessors: [governProcessor(gate)] }),
  tools: toolsOf(version, execute)
})

const optionsOf = ({ signal }: AdapterRun) => ({
  maxSteps: 10,
  ...(signal === undefined ? {} : { abortSignal: signal })
})

const generates =
  (version: Version): Driver =>
  async (run) => {
    const { agent, told } = agentOf(version, run)
    await agent.generate("Refund it", optionsOf(run))
    return told()
  }

const streams =
  (version: Version): Driver =>
  async (run) => {
    const { agent, told } = agentOf(version, run)
    const output = await agent.stream("Refund it", optionsOf(run))
    await output.consumeStream()
    return told()
  }

/** The tools come with the run, so only the processor governs them. */
const bringsTools =
  (version: Version): Driver =>
  async (run) => {
    const { agent, tools, told } = processedAgentOf(version, run)
    await agent.generate("Refund it", { ...optionsOf(run), toolsets: { run: tools } })
    return told()
  }

/** The run is suspended when a person has to decide, and resumed from its snapshot. */
const pauses: Driver = async (run) => {
  const { agent, told } = agentOf(newestVersion, run, true)
  const mastra = new Mastra({ agents: { agent }, storage: new InMemoryStore(), logger: false })
  const stored = mastra.getAgent("agent")
  let output = await stored.generate("Refund it", optionsOf(run))
  while (output.finishReason === "suspended") {
    output = await stored.resumeGenerate({ resumed: true }, { ...optionsOf(run), runId: output.runId ?? "" })
  }
  return told()
}

/** Compiles if the parameters of both versions accept what the adapter returns. */
export const acceptedByNewest = ({ gate }: AdapterRun): unknown =>
  new newest.Agent({
    id: "agent",
    name: "agent",
    instructions: "Refund it",
    model: "openai/any",
    tools: governTools({ read: newestTools.createTool({ id: "read", description: "", inputSchema }) }, gate)
  })
export const acceptedByLowest = ({ gate }: AdapterRun): unknown =>
  new lowest.Agent({
    id: "agent",
    name: "agent",
    instructions: "Refund it",
    model: "openai/any",
    tools: governTools({ read: lowestTools.createTool({ id: "read", description: "", inputSchema }) }, gate)
  })

const call = { id: "call_1", tool: "forbidden", arguments: { amount: 50 } }

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("governTools of Mastra", (it) => {
  adapterContract(it, "generate", generates(newestVersion))
  adapterContract(it, "stream", streams(newestVersion))
  adapterContract(it, "pause", pauses)
  adapterContract(it, "tools of a run", bringsTools(newestVersion))
  adapterContract(it, "the lowest tools of a run", bringsTools(lowestVersion))
  adapterContract(it, "the lowest generate", generates(lowestVersion))
  adapterContract(it, "the lowest stream", streams(lowestVersion))

  it.effect(
    "does not record a tool as ended that suspends itself, and does not ask again when it goes on",
    () =>
      Effect.gen(function* () {
        const { client, decide, outcomes, session } = yield* governedRun("mastra suspends")
        const refund = newestTools.createTool({
          id: "refund",
          description: "Refunds",
          inputSchema,
          resumeSchema: z.object({ code: z.string() }),
          suspendSchema: z.object({ needs: z.string() }),
          execute: async ({ amount }, { agent }) =>
            agent?.resumeData === undefined
              ? agent?.suspend({ needs: "code" })
              : { amount, ...agent.resumeData }
        })
        const scripted = scriptedModel([[{ id: "call_1", tool: "refund", arguments: { amount: "50" } }]])
        const agent = new newest.Agent({
          id: "agent",
          name: "agent",
          instructions: "Refund it",
          // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
          model: scripted as unknown as MastraModelConfig,
          tools: governTools({ refund }, { client, session, pause: true })
        })
        const stored = new Mastra({
          agents: { agent },
          storage: new InMemoryStore(),
          logger: false
        }).getAgent("agent")
        yield* Effect.promise(async () => {
          const paused = await stored.generate("Refund it")
          assert.strictEqual(paused.finishReason, "suspended")
          const resuming = stored.resumeGenerate({ resumed: true }, { runId: paused.runId ?? "" })
          await decide("approve", "refund", { arguments: { amount: 50 } })
          const suspended = await resuming
          assert.strictEqual(suspended.finishReason, "suspended")
          await stored.resumeGenerate({ code: "1234" }, { runId: paused.runId ?? "" })
          const told = toldAbout(
            [...scripted.doGenerateCalls, ...scripted.doStreamCalls].at(-1)?.prompt ?? []
          )
          assert.include(told.get("call_1"), "1234")
          assert.deepStrictEqual(await outcomes(), [
            { step_id: "call_1", tool: "refund", status: "succeeded" }
          ])
        })
      })
  )

  it.effect("does not record a tool under the processor as ended that suspends itself", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("mastra processor suspends")
      const read = newestTools.createTool({
        id: "read",
        description: "Reads",
        inputSchema,
        resumeSchema: z.object({ code: z.string() }),
        suspendSchema: z.object({ needs: z.string() }),
        execute: async (_given, { agent }) =>
          agent?.resumeData === undefined ? agent?.suspend({ needs: "code" }) : agent.resumeData
      })
      const { agent, told } = scriptedAgent(newestVersion, [[{ ...call, tool: "read" }]], {
        tools: { read },
        inputProcessors: [governProcessor({ client, session })]
      })
      const stored = new Mastra({
        agents: { agent },
        storage: new InMemoryStore(),
        logger: false
      }).getAgent("agent")
      yield* Effect.promise(async () => {
        const suspended = await stored.generate("Refund it")
        assert.strictEqual(suspended.finishReason, "suspended")
        await stored.resumeGenerate({ code: "1234" }, { runId: suspended.runId ?? "" })
        assert.include(told().get("call_1"), "1234")
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
      })
    })
  )

  const versions = [
    ["newest", newestVersion],
    ["lowest", lowestVersion]
  ] as const
  for (const [name, version] of versions) {
    it.effect(`${name} › governs the shell of a workspace`, () =>
      Effect.gen(function* () {
        const { client, decide, outcomes, session } = yield* governedRun(`mastra workspace ${name}`)
        const { LocalSandbox, Workspace } = version
        const directory = mkdtempSync(join(tmpdir(), "countersign-workspace-"))
        const tool = "mastra_workspace_execute_command"
        const { agent, told } = scriptedAgent(
          version,
          [
            [{ id: "call_1", tool, arguments: { command: "touch first" } }],
            [{ id: "call_2", tool, arguments: { command: "touch second" } }]
          ],
          {
            workspace: new Workspace({ sandbox: new LocalSandbox({ workingDirectory: directory }) }),
            inputProcessors: [governProcessor({ client, session })]
          }
        )
        yield* Effect.promise(async () => {
          const running = agent.generate("Refund it", { maxSteps: 5 })
          await decide("reject", tool, { arguments: { command: "touch first" } })
          await decide("approve", tool, { arguments: { command: "touch second" } })
          await running
          assert.include(told().get("call_1"), "A person rejected this call")
          assert.deepStrictEqual(readdirSync(directory), ["second"])
          assert.deepStrictEqual(await outcomes(), [{ step_id: "call_2", tool, status: "succeeded" }])
        })
        rmSync(directory, { recursive: true })
      })
    )

    it.effect(`${name} › governs a tool of a run that replaces a governed one of the same name`, () =>
      Effect.gen(function* () {
        const { client, outcomes, session } = yield* governedRun(`mastra toolsets ${name}`)
        const gate = { client, session }
        const tools = toolsOf(version, () => assert.fail("executed"))
        const { agent, told } = scriptedAgent(version, [[call]], {
          tools: governTools(tools, gate),
          inputProcessors: [governProcessor(gate)]
        })
        yield* Effect.promise(async () => {
          await agent.generate("Refund it", { maxSteps: 5, toolsets: { run: tools } })
          assert.include(told().get("call_1"), "A rule rejected this call")
          assert.deepStrictEqual(await outcomes(), [])
        })
      })
    )

    it.effect(`${name} › asks once about a tool that is governed itself`, () =>
      Effect.gen(function* () {
        const { client, outcomes, session } = yield* governedRun(`mastra twice ${name}`)
        const asked: Array<string> = []
        const gate = {
          client,
          session,
          summary: ({ tool }: { readonly tool: string }) => `${asked.push(tool)}`
        }
        const { agent } = scriptedAgent(version, [[{ ...call, tool: "read" }]], {
          tools: governTools(
            toolsOf(version, () => "done"),
            gate
          ),
          inputProcessors: [governProcessor(gate)]
        })
        yield* Effect.promise(async () => {
          await agent.generate("Refund it", { maxSteps: 5 })
          assert.deepStrictEqual(asked, ["read"])
          assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
        })
      })
    )

    it.effect(`${name} › refuses an agent as a tool that is not listed`, () =>
      Effect.gen(function* () {
        const { client, decide, outcomes, session } = yield* governedRun(`mastra agent ${name}`)
        const executed: Array<string> = []
        const run = async (id: string, ungoverned: ReadonlyArray<string>) => {
          const helper = scriptedAgent(version, [[{ ...call, id: `${id} inner` }]], {
            id: "helper",
            description: "Helps",
            tools: toolsOf(version, (tool) => executed.push(tool))
          })
          const ask = { id, tool: "agent-helper", arguments: { prompt: "Refund it" } }
          const { agent, told } = scriptedAgent(version, [[ask]], {
            agents: { helper: helper.agent },
            inputProcessors: [governProcessor({ client, session, ungoverned })]
          })
          await agent.generate("Refund it", { maxSteps: 5 })
          return told().get(id)
        }
        yield* Effect.promise(async () => {
          assert.include(
            await run("call_1", []),
            '"agent-helper" can make calls that Countersign does not govern'
          )
          assert.deepStrictEqual(executed, [])
          const running = run("call_2", ["agent-helper"])
          await decide("approve", "agent-helper")
          await running
          assert.deepStrictEqual(executed, ["forbidden"])
          assert.lengthOf(await outcomes(), 1)
        })
      })
    )

    it.effect(`${name} › asks about a tool that was approved in the run alone`, () =>
      Effect.gen(function* () {
        const { client, outcomes, session } = yield* governedRun(`mastra approval ${name}`)
        const executed: Array<string> = []
        const forbidden = version.createTool({
          id: "forbidden",
          description: "Forbidden",
          inputSchema,
          requireApproval: true,
          execute: async () => executed.push("forbidden")
        })
        const { agent, told } = scriptedAgent(version, [[call]], {
          tools: { forbidden },
          inputProcessors: [governProcessor({ client, session })]
        })
        const stored = new version.Mastra({
          agents: { agent },
          storage: new version.InMemoryStore(),
          logger: false
        }).getAgent("agent")
        yield* Effect.promise(async () => {
          const paused = await stored.generate("Refund it", { maxSteps: 5 })
          await stored.approveToolCallGenerate({ runId: paused.runId ?? "", toolCallId: "call_1" })
          assert.deepStrictEqual(executed, [])
          assert.include(told().get("call_1"), "A rule rejected this call")
          assert.deepStrictEqual(await outcomes(), [])
        })
      })
    )
  }
})
