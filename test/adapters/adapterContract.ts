/** What every adapter does, as tests that run over any of them. */
import { assert, type Vitest } from "@effect/vitest"
import { Effect } from "effect"
import type { Countersign } from "../../src/testing/index.ts"
import type { GateFault, GateSettings } from "../../src/adapters/toolGate/publicTypes.ts"
import { connect } from "../../src/client/connect/index.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { startScriptedServer } from "../support/scripted.ts"
import { governedRun } from "./governedRun.ts"
import { eventually } from "./mcp/eventually.ts"

/** A call that the scripted model asks for. */
export interface ScriptedCall {
  readonly id: string
  readonly tool: string
  readonly arguments: { readonly amount: number | string }
}

/** One run of an agent with a scripted model. */
export interface AdapterRun {
  readonly gate: Pick<GateSettings, "client" | "leaseSeconds" | "onFault" | "timeout"> & {
    readonly session: string
  }
  /** The calls of each response of the model. After them it ends. */
  readonly responses: ReadonlyArray<ReadonlyArray<ScriptedCall>>
  /** Executes a tool: all have the argument `amount`, a number that may arrive as its text, and differ only by name. */
  readonly execute: (tool: string, input: { readonly amount: number }) => unknown
  readonly signal?: AbortSignal
}

/** Runs an agent, and returns what the model was told about each call, by the ID of the call. */
export type Driver = (run: AdapterRun) => Promise<ReadonlyMap<string, string>>

export interface ContractOptions {
  /** Whether the framework converts arguments to the type of the schema (`"50"` to `50`). Default: `true`. */
  readonly coerces?: boolean
  /** Whether parallel calls reach the adapter at the same time. Default: `true`. */
  readonly isParallel?: boolean
  /** Whether a call waits within its run, at most for the timeout. Otherwise the driver resumes the run until it is decided. Default: `true`. */
  readonly waits?: boolean
  /** Whether the framework asks before it executes anything, perhaps in another process. Such a question claims nothing. */
  readonly isPaused?: boolean
  /** Whether the adapter learns that a run was aborted while a tool runs. Default: `true`. */
  readonly seesAborts?: boolean
}

/** The tools that a driver offers. */
export const TOOLS = ["read", "refund", "forbidden", "unattended"] as const

/** Each test has an organization of its own, and several wait for seconds: for retries, and for a decision that nobody makes. */
const CONCURRENT = { concurrent: true, timeout: 120_000 }

/** Adds the tests. */
export const adapterContract = (
  it: Vitest.MethodsNonLive<Countersign>,
  name: string,
  drive: Driver,
  {
    coerces = true,
    isParallel = true,
    isPaused = false,
    seesAborts = true,
    waits = true
  }: ContractOptions = {}
): void => {
  const test = (
    title: string,
    body: (run: Effect.Success<ReturnType<typeof governedRun>>, faults: Array<GateFault>) => Promise<void>
  ) =>
    it.effect(
      `${name} › ${title}`,
      () =>
        Effect.gen(function* () {
          const run = yield* governedRun(`${name} ${title}`.slice(0, 100))
          const faults: Array<GateFault> = []
          yield* Effect.promise(() => body(run, faults))
          assert.deepStrictEqual(faults, [])
        }),
      CONCURRENT
    )

  test("executes what a rule allows, and records how it ended", async ({ client, outcomes, session }) => {
    const told = await drive({
      gate: { client, session },
      responses: [
        [{ id: "call_1", tool: "read", arguments: { amount: 1 } }],
        [{ id: "call_2", tool: "read", arguments: { amount: 2 } }]
      ],
      execute: (_tool, { amount }) => {
        if (amount === 2) throw new Error("The bank is closed")
        return { balance: 42 }
      }
    })
    assert.include(told.get("call_1"), "42")
    assert.include(told.get("call_2"), "The bank is closed")
    assert.deepStrictEqual(await outcomes(), [
      { step_id: "call_1", tool: "read", status: "succeeded" },
      { step_id: "call_2", tool: "read", status: "failed" }
    ])
  })

  test("tells the model what rejected a call", async ({ client, decide, outcomes, session }) => {
    const running = drive({
      gate: { client, session },
      responses: [
        [{ id: "by rule", tool: "forbidden", arguments: { amount: 1 } }],
        [{ id: "by person", tool: "refund", arguments: { amount: 50 } }],
        [{ id: "proposal", tool: "refund", arguments: { amount: 60 } }],
        [{ id: "by nobody", tool: "unattended", arguments: { amount: 1 } }]
      ],
      execute: () => assert.fail("executed")
    })
    await decide("reject", "refund", { comment: "Wrong order", arguments: { amount: 50 } })
    await decide("reject", "refund", { arguments: { amount: 60 }, proposes: { amount: 20 } })
    const told = await running
    assert.include(told.get("by rule"), "A rule rejected this call")
    assert.include(told.get("by person"), "A person rejected this call")
    assert.include(told.get("by person"), "Wrong order")
    assert.match(told.get("proposal") ?? "", /allowed until .*amount.*20/u)
    assert.include(told.get("by nobody"), "Nobody decided")
    assert.deepStrictEqual(await outcomes(), [])
  })

  if (waits) {
    test("does not execute a call about which nobody decided in time", async ({
      client,
      outcomes,
      session
    }) => {
      const told = await drive({
        gate: { client, session, timeout: "100 millis" },
        responses: [[{ id: "call_1", tool: "refund", arguments: { amount: 50 } }]],
        execute: () => assert.fail("executed")
      })
      // A run that is interrupted tells the model nothing.
      assert.include(told.get("call_1") ?? "waits for a person", "waits for a person")
      assert.lengthOf((await client.approvals.list({ query: { status: "pending" } })).approvals, 1)
      assert.deepStrictEqual(await outcomes(), [])
    })
  }

  if (coerces) {
    test("sends the input as the tool gets it", async ({ client, decide, session }) => {
      const executed: Array<unknown> = []
      const running = drive({
        gate: { client, session },
        responses: [[{ id: "call_1", tool: "refund", arguments: { amount: "50" } }]],
        execute: (_tool, input) => executed.push(input)
      })
      await decide("approve", "refund", { arguments: { amount: 50 } })
      await running
      assert.deepStrictEqual(executed, [{ amount: 50 }])
    })
  }

  if (isParallel) {
    test("asks for parallel calls at the same time", async ({ client, decide, outcomes, session }) => {
      const amounts = [1, 2, 3]
      const running = drive({
        gate: { client, session },
        responses: [
          amounts.map((amount) => ({ id: `call_${amount}`, tool: "refund", arguments: { amount } }))
        ],
        execute: () => "done"
      })
      // The last first: it is there before any other is decided.
      for (const amount of amounts.toReversed()) {
        await decide(amount === 2 ? "reject" : "approve", "refund", { arguments: { amount } })
      }
      const told = await running
      assert.include(told.get("call_2"), "A person rejected this call")
      assert.deepStrictEqual((await outcomes()).map(({ step_id }) => step_id).toSorted(), [
        "call_1",
        "call_3"
      ])
    })
  }

  test("goes on after an abort where it was, and executes each call once", async ({
    client,
    decide,
    outcomes,
    session
  }) => {
    const executed: Array<string> = []
    const run = {
      gate: { client, session },
      responses: [
        [{ id: "call_1", tool: "read", arguments: { amount: 1 } }],
        [{ id: "call_2", tool: "refund", arguments: { amount: 50 } }]
      ],
      execute: (tool: string) => {
        executed.push(tool)
        return "done"
      }
    }
    const aborting = new AbortController()
    const first = drive({ ...run, signal: aborting.signal }).catch((error: unknown) => error)
    await eventually(async () =>
      assert.isNotEmpty((await client.approvals.list({ query: { status: "pending" } })).approvals)
    )
    aborting.abort(new Error("The user left"))
    await first
    // Nothing was decided by the abort, and the session takes further steps.
    await decide("approve", "refund")
    const told = await drive(run)
    assert.include(told.get("call_1"), "executed before")
    assert.include(told.get("call_2"), "done")
    assert.deepStrictEqual(executed, ["read", "refund"])
    assert.strictEqual((await outcomes()).length, 2)
  })

  if (seesAborts) {
    test("leaves the outcome of a tool unknown that fails because its run was aborted", async ({
      client,
      executions,
      outcomes,
      session
    }) => {
      const aborting = new AbortController()
      const stopped = new Error("The user left")
      await drive({
        gate: { client, session, leaseSeconds: 1 },
        responses: [[{ id: "call_1", tool: "read", arguments: { amount: 1 } }]],
        execute: () => {
          aborting.abort(stopped)
          throw stopped
        },
        signal: aborting.signal
      }).catch((error: unknown) => error)
      await eventually(async () => assert.deepInclude((await executions())[0], { state: "unknown" }))
      assert.deepStrictEqual(await outcomes(), [])
    })
  }

  test("executes a call once that two agents resume at once", async ({ client, outcomes, session }) => {
    const executed: Array<string> = []
    const loserEnded = Promise.withResolvers<void>()
    const run: AdapterRun = {
      gate: { client, session },
      responses: [[{ id: "call_1", tool: "read", arguments: { amount: 1 } }]],
      execute: async (tool) => {
        executed.push(tool)
        await loserEnded.promise
        return "the balance"
      }
    }
    const told = await Promise.all(
      [1, 2].map(async () => {
        const answers = await drive(run)
        loserEnded.resolve()
        return answers.get("call_1") ?? ""
      })
    )
    assert.deepStrictEqual(executed, ["read"])
    assert.lengthOf(
      told.filter((text) => text.includes("the balance")),
      1
    )
    assert.lengthOf(
      told.filter((text) => text.includes("is being executed")),
      1
    )
    assert.lengthOf(await outcomes(), 1)
  })

  test("does not execute a call again whose agent ended before its outcome", async ({
    client,
    executions,
    session
  }) => {
    const content = { tool: "read", action_class: "write", arguments: { amount: 1 } }
    await client.sessions.step({
      params: { id: session },
      payload: { step_id: "call_1", ...content, claim: true, lease_seconds: 1 }
    })
    await eventually(async () => assert.deepInclude((await executions())[0], { state: "unknown" }))
    const told = await drive({
      gate: { client, session },
      responses: [[{ id: "call_1", tool: "read", arguments: { amount: 1 } }]],
      execute: () => assert.fail("executed")
    })
    assert.include(told.get("call_1"), "may have been executed")
    assert.include(told.get("call_1"), "A person must find out")
    assert.deepInclude((await executions())[0], { state: "unknown", step_id: StepId.make("call_1") })
  })

  test("sends one request for the decision with the claim of an allowed call, and one for its outcome", async ({
    key,
    session,
    url
  }) => {
    const sent: Array<string> = []
    const client = connect({ url, key, log: ({ operation }) => sent.push(operation) })
    await drive({
      gate: { client, session },
      responses: [[{ id: "call_1", tool: "read", arguments: { amount: 1 } }]],
      execute: () => "done"
    })
    await client.close()
    assert.deepStrictEqual(sent, [
      ...(isPaused ? ["sessions.step"] : []),
      "sessions.step",
      "sessions.reportOutcome"
    ])
  })

  it.effect(
    `${name} › executes nothing if the service cannot be reached`,
    () =>
      Effect.gen(function* () {
        const server = yield* startScriptedServer([{ status: 502, text: "bad gateway" }])
        const client = connect({ url: server.url, key: "csk_any", retries: 0 })
        yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
        const faults: Array<GateFault> = []
        const told = yield* Effect.promise(() =>
          drive({
            gate: { client, session: `ses_${"0".repeat(32)}`, onFault: (fault) => faults.push(fault) },
            responses: [[{ id: "call_1", tool: "read", arguments: { amount: 1 } }]],
            execute: () => assert.fail("executed")
          })
        )
        assert.include(told.get("call_1"), "could not be reached")
        assert.deepStrictEqual(
          faults.map(({ operation }) => operation),
          ["ask"]
        )
      }),
    CONCURRENT
  )
}
