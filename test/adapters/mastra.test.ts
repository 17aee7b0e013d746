import { assert, layer } from "@effect/vitest"
import { Mastra } from "@mastra/core"
import * as newest from "@mastra/core/agent"
import type { MastraModelConfig } from "@mastra/core/llm"
import { InMemoryStore } from "@mastra/core/storage"
import * as newestTools from "@mastra/core/tools"
import { Effect } from "effect"
import * as lowest from "mastra-core-lowest/agent"
import * as lowestTools from "mastra-core-lowest/tools"
import { z } from "zod"
import { governTools } from "../../src/adapters/mastra.ts"
import { service } from "../support/service.ts"
import { type AdapterRun, adapterContract, type Driver, TOOLS } from "./adapterContract.ts"
import { scriptedModel, toldAbout } from "./aiSdkModel.ts"
import { governedRun } from "./governedRun.ts"

const inputSchema = z.object({ amount: z.coerce.number() })

/** The modules of one version. */
interface Version {
  readonly Agent: typeof newest.Agent
  readonly createTool: typeof newestTools.createTool
}

const newestVersion: Version = { Agent: newest.Agent, createTool: newestTools.createTool }
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- types of another version; `acceptedByLowest` checks those that matter
const lowestVersion = { Agent: lowest.Agent, createTool: lowestTools.createTool } as unknown as Version

const agentOf = ({ Agent, createTool }: Version, { execute, gate, responses }: AdapterRun, pause = false) => {
  const scripted = scriptedModel(responses)
  const tools = Object.fromEntries(
    TOOLS.map((name) => [
      name,
      createTool({ id: name, description: name, inputSchema, execute: async (input) => execute(name, input) })
    ])
  )
  const agent = new Agent({
    id: "agent",
    name: "agent",
    instructions: "Refund it",
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Mastra takes models of the AI SDK, but declares `doGenerate` as its own wrapper has it
    model: scripted as unknown as MastraModelConfig,
    tools: governTools(tools, { ...gate, pause })
  })
  const told = () => toldAbout([...scripted.doGenerateCalls, ...scripted.doStreamCalls].at(-1)?.prompt ?? [])
  return { agent, told }
}

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

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("governTools of Mastra", (it) => {
  adapterContract(it, "generate", generates(newestVersion))
  adapterContract(it, "stream", streams(newestVersion))
  adapterContract(it, "pause", pauses)
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
})
