import { assert, layer } from "@effect/vitest"
import * as newest from "@strands-agents/sdk"
import { Effect } from "effect"
import * as lowest from "strands-agents-sdk-lowest"
import { z } from "zod"
import { governIntervention } from "../../src/adapters/strands.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { service } from "../support/service.ts"
import { adapterContract, type AdapterRun, type Driver, TOOLS } from "./adapterContract.ts"
import { governedRun } from "./governedRun.ts"
import { eventually } from "./mcp/eventually.ts"
import { ScriptedModel, toldAbout } from "./strandsModel.ts"

type Sdk = Pick<typeof newest, "Agent" | "tool">

const toolsOf = (sdk: Sdk, execute: AdapterRun["execute"]) =>
  TOOLS.map((name) =>
    sdk.tool({
      name,
      description: name,
      inputSchema: z.object({ amount: z.coerce.number() }),
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
  adapterContract(it, "governIntervention", driver(newest))
  adapterContract(it, "governIntervention with pause", pausingDriver(newest))
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its classes have private members, so their types are others
  const lowestSdk = lowest as unknown as Sdk
  adapterContract(it, "the lowest governIntervention", driver(lowestSdk))
  adapterContract(it, "the lowest governIntervention with pause", pausingDriver(lowestSdk))

  const inner = { id: "inner_1", tool: "forbidden", arguments: { amount: 50 } }
  const outer = { id: "outer_1", tool: "read", arguments: { input: "Refund it" } }

  for (const [version, sdk] of [
    ["newest", newest],
    ["lowest", lowestSdk]
  ] as const) {
    const support = async (
      { client, session }: Effect.Success<ReturnType<typeof governedRun>>,
      execute: AdapterRun["execute"],
      options: { readonly isGoverned: boolean; readonly ungoverned: ReadonlyArray<string> }
    ) => {
      const govern = governIntervention({ client, session, ungoverned: options.ungoverned })
      const refunds = new sdk.Agent({
        name: "refunds",
        model: new ScriptedModel([[inner]]),
        tools: toolsOf(sdk, execute),
        interventions: options.isGoverned ? [governIntervention({ client, session })] : [],
        printer: false
      })
      const agent = new sdk.Agent({
        model: new ScriptedModel([[outer]]),
        tools: [refunds.asTool({ name: "read", description: "Refunds" })],
        interventions: [govern],
        printer: false
      })
      await agent.invoke("Refund it")
      return toldAbout(agent.messages).get("outer_1")
    }

    it.effect(
      `${version} › refuses an agent as a tool that has no intervention, and that is not listed`,
      () =>
        Effect.gen(function* () {
          const run = yield* governedRun(`strands agent tool ${version}`)
          yield* Effect.promise(async () => {
            const told = await support(run, () => assert.fail("executed"), {
              isGoverned: false,
              ungoverned: []
            })
            assert.include(told, '"read" can make calls that Countersign does not govern')
            assert.deepStrictEqual(await run.outcomes(), [])
          })
        })
    )

    it.effect(`${version} › asks about the calls of an agent as a tool that has the intervention`, () =>
      Effect.gen(function* () {
        const run = yield* governedRun(`strands governed agent tool ${version}`)
        yield* Effect.promise(async () => {
          const told = await support(run, () => assert.fail("executed"), { isGoverned: true, ungoverned: [] })
          assert.include(told, "Done")
          assert.deepStrictEqual(await run.outcomes(), [
            { step_id: "outer_1", tool: "read", status: "succeeded" }
          ])
        })
      })
    )

    it.effect(`${version} › goes on with a call whose tool interrupts the invocation to ask the user`, () =>
      Effect.gen(function* () {
        const { client, executions, outcomes, session } = yield* governedRun(`strands handoff ${version}`)
        yield* Effect.promise(async () => {
          const handoff = sdk.tool({
            name: "read",
            description: "Asks the user",
            inputSchema: z.object({ amount: z.number() }),
            callback: (_input, context) => {
              const first = context?.interrupt({ name: "first", reason: "Which account?" })
              const second = context?.interrupt({ name: "second", reason: "Are you sure?" })
              return `${JSON.stringify(first)} ${JSON.stringify(second)}`
            }
          })
          const agent = new sdk.Agent({
            model: new ScriptedModel([[{ id: "call_1", tool: "read", arguments: { amount: 1 } }]]),
            tools: [handoff],
            interventions: [governIntervention({ client, session })],
            printer: false
          })
          let result = await agent.invoke("Refund it")
          for (const response of ["savings", "sure"]) {
            assert.strictEqual(result.stopReason, "interrupt")
            const answers = (result.interrupts ?? []).map(({ id }) => ({
              interruptResponse: { interruptId: id, response }
            }))
            result = await agent.invoke(answers)
          }
          assert.include(toldAbout(agent.messages).get("call_1"), '"savings" "sure"')
          assert.deepStrictEqual(await executions(), [])
          assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
        })
      })
    )

    it.effect(`${version} › runs an agent as a tool that is listed as ungoverned`, () =>
      Effect.gen(function* () {
        const run = yield* governedRun(`strands ungoverned agent tool ${version}`)
        yield* Effect.promise(async () => {
          const executed: Array<string> = []
          await support(run, (tool) => executed.push(tool), { isGoverned: false, ungoverned: ["read"] })
          assert.deepStrictEqual(executed, ["forbidden"])
        })
      })
    )
  }

  it.effect("sends the defaults of a schema, and refuses arguments that do not match it", () =>
    Effect.gen(function* () {
      const { client, decide, outcomes, session } = yield* governedRun("strands defaults")
      yield* Effect.promise(async () => {
        const executed: Array<unknown> = []
        const refund = newest.tool({
          name: "refund",
          description: "Refunds",
          inputSchema: z.object({ amount: z.coerce.number(), to: z.string().default("card") }),
          callback: (input) => {
            executed.push(input)
            return "done"
          }
        })
        // Together they are submitted when the response comes.
        const calls = [
          { id: "call_1", tool: "refund", arguments: { amount: "50" } },
          { id: "call_2", tool: "refund", arguments: { amount: "many" } },
          { id: "call_3", tool: "status", arguments: {} }
        ]
        const status = newest.tool({ name: "status", description: "Status", callback: () => "open" })
        const agent = new newest.Agent({
          model: new ScriptedModel([calls]),
          tools: [refund, status],
          interventions: [governIntervention({ client, session })],
          printer: false
        })
        const running = agent.invoke("Refund it")
        await decide("approve", "refund", { arguments: { amount: 50, to: "card" } })
        await decide("approve", "status", { arguments: {} })
        await running
        assert.deepStrictEqual(executed, [{ amount: 50, to: "card" }])
        const told = toldAbout(agent.messages)
        assert.include(told.get("call_2"), "do not match the tool's schema")
        assert.include(told.get("call_3"), "open")
        assert.lengthOf(await outcomes(), 2)
      })
    })
  )

  it.effect("does not let a later intervention change what was decided", () =>
    Effect.gen(function* () {
      const { client, executions, outcomes, session } = yield* governedRun("strands frozen")
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
        // The SDK makes the call again. The intervention does not see whether the tool ran before that.
        await eventually(async () =>
          assert.deepInclude((await executions())[0], {
            state: "unknown",
            step_id: StepId.make("call_1")
          })
        )
        assert.deepStrictEqual(await outcomes(), [])
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
