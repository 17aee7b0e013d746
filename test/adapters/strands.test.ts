import { assert, layer } from "@effect/vitest"
import * as newest from "@strands-agents/sdk"
import { Effect } from "effect"
import * as lowest from "strands-agents-sdk-lowest"
import { z } from "zod"
import { governIntervention } from "../../src/adapters/strands.ts"
import { service } from "../support/service.ts"
import { adapterContract, type AdapterRun, type Driver, TOOLS } from "./adapterContract.ts"
import { governedRun } from "./governedRun.ts"
import { ScriptedModel, toldAbout } from "./strandsModel.ts"

type Sdk = Pick<typeof newest, "Agent" | "tool">

const toolsOf = (sdk: Sdk, execute: AdapterRun["execute"]) =>
  TOOLS.map((name) =>
    sdk.tool({
      name,
      description: name,
      inputSchema: z.object({ amount: z.number() }),
      callback: async (input) => JSON.stringify(await execute(name, input))
    })
  )

const driver =
  (sdk: Sdk): Driver =>
  async ({ execute, gate, responses, signal }) => {
    const agent = new sdk.Agent({
      model: new ScriptedModel(responses),
      tools: toolsOf(sdk, execute),
      interventions: [governIntervention(gate)],
      printer: false
    })
    await agent.invoke("Refund it", signal === undefined ? {} : { cancelSignal: signal })
    return toldAbout(agent.messages)
  }

/** Ends when a call has to wait, and goes on in an agent made anew from the snapshot. */
const pausingDriver =
  (sdk: Sdk): Driver =>
  async ({ execute, gate, responses, signal }) => {
    const start = () =>
      new sdk.Agent({
        model: new ScriptedModel(responses),
        tools: toolsOf(sdk, execute),
        interventions: [governIntervention({ ...gate, pause: true })],
        printer: false
      })
    const cancel = signal === undefined ? {} : { cancelSignal: signal }
    let agent = start()
    let result = await agent.invoke("Refund it", cancel)
    while (result.stopReason === "interrupt") {
      const snapshot = JSON.stringify(agent.takeSnapshot({ preset: "session" }))
      agent = start()
      agent.loadSnapshot(JSON.parse(snapshot))
      // No response approves anything.
      const responses = (result.interrupts ?? []).map(({ id }) => ({
        interruptResponse: { interruptId: id, response: "y" }
      }))
      result = await agent.invoke(responses, cancel)
    }
    return toldAbout(agent.messages)
  }

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("strands", (it) => {
  // A tool converts its arguments by its schema after all interventions.
  const contract = { coerces: false }
  adapterContract(it, "governIntervention", driver(newest), contract)
  adapterContract(it, "governIntervention with pause", pausingDriver(newest), contract)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its classes have private members, so their types are others
  const lowestSdk = lowest as unknown as Sdk
  adapterContract(it, "the lowest governIntervention", driver(lowestSdk), contract)
  adapterContract(it, "the lowest governIntervention with pause", pausingDriver(lowestSdk), contract)

  it.effect("does not let a later intervention change what was decided", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("strands frozen")
      class Change extends newest.InterventionHandler {
        override readonly name = "change"
        override beforeToolCall(event: newest.BeforeToolCallEvent) {
          Object.assign(Object(event.toolUse.input), { amount: 5_000 })
          return { type: "proceed" as const }
        }
      }
      yield* Effect.promise(async () => {
        const agent = new newest.Agent({
          model: new ScriptedModel([[{ id: "call_1", tool: "read", arguments: { amount: 50 } }]]),
          tools: toolsOf(newest, () => assert.fail("executed")),
          interventions: [governIntervention({ client, session }), new Change()],
          printer: false
        })
        const error = await agent.invoke("Refund it").catch((error: unknown) => error)
        assert.include(String(error), "read only")
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "failed" }])
      })
    })
  )
})

/** Both versions accept the intervention. */
export const typeChecks = (
  gate: Parameters<typeof governIntervention>[0]
): [newest.InterventionHandler, lowest.InterventionHandler] => [
  governIntervention(gate),
  governIntervention(gate)
]
