import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import fc from "fast-check"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { makeToolGate } from "../../../src/adapters/toolGate.ts"
import { runHook } from "../../../src/cli/hook/runHook.ts"
import { governedRun, type GovernedRun } from "../../adapters/governedRun.ts"
import { claudeCode2, failed, succeeded } from "../../support/hooks/recordedInputs.ts"
import { service } from "../../support/service.ts"

/** A call of a tool, as a model server numbers it: the IDs of each response begin anew. */
interface Call {
  readonly id: string
  readonly tool: string
  readonly n: number
  /** `none`: the coding agent reports nothing, as Codex for a call that failed. */
  readonly end: "succeeded" | "failed" | "none"
}

/** A way by which calls are asked about. */
interface Client {
  readonly ask: (call: Call) => Promise<"allow" | "deny">
  readonly report: (call: Call) => Promise<void>
  /** The agent session of the calls. */
  readonly session: () => Promise<string>
}

const ENDS = ["succeeded", "failed", "none"] as const

const calls = (ends: ReadonlyArray<Call["end"]>) =>
  fc.array(
    fc.record({
      id: fc.constantFrom("call_0", "call_1", `call_${"A".repeat(950)}`, `call_${"A".repeat(951)}`),
      tool: fc.constantFrom("read", "refund"),
      n: fc.integer({ min: 1, max: 2 }),
      end: fc.constantFrom(...ends)
    }),
    { minLength: 1, maxLength: 8 }
  )

/** The first call is not executed again after the second, which has its ID, has ended. */
const UNREPORTED: Array<Call> = [
  { id: "call_0", tool: "read", n: 1, end: "none" },
  { id: "call_0", tool: "read", n: 2, end: "succeeded" },
  { id: "call_0", tool: "read", n: 1, end: "succeeded" }
]

/** Every call gets a decision of its own, by a rule or by a person, under which it is executed once. */
const assertOneDecisionEach = async (run: GovernedRun, client: Client, sequence: ReadonlyArray<Call>) => {
  let asked = 0
  for (const call of sequence) {
    if ((await client.ask(call)) === "deny") {
      assert.strictEqual(call.tool, "refund")
      await run.decide("approve", "refund")
      asked++
      assert.strictEqual(await client.ask(call), "allow", "an approved call was not allowed")
    }
    if (call.end !== "none") await client.report(call)
  }
  const session = await client.session()
  await run.client.sessions.close({ params: { id: session } })
  const steps = new Set<string>()
  const outcomes: Array<string> = []
  for await (const event of run.client.stream(session, { after: 0 })) {
    if ("step_id" in event && typeof event.step_id === "string") steps.add(event.step_id)
    if (event.type === "tool:outcome") outcomes.push(event.status)
  }
  assert.strictEqual(asked, sequence.filter(({ tool }) => tool === "refund").length, "questions to people")
  assert.strictEqual(steps.size, sequence.length, "steps")
  assert.deepStrictEqual(
    outcomes,
    sequence.flatMap(({ end }) => (end === "none" ? [] : [end]))
  )
}

const inputOf = (session_id: string, { id, n, tool }: Call) => ({
  ...claudeCode2,
  session_id,
  tool_name: tool,
  tool_input: { n },
  tool_use_id: id
})

const reportOf = (session: string, call: Call) =>
  call.end === "failed" ? failed(inputOf(session, call), "EACCES") : succeeded(inputOf(session, call), "done")

const decisionIn = (answer: unknown): "allow" | "deny" => {
  const specific: unknown = Reflect.get(Object(answer), "hookSpecificOutput")
  const decision: unknown = Reflect.get(Object(specific), "permissionDecision")
  if (decision === "allow" || decision === "deny") return decision
  return assert.fail(`no decision: ${JSON.stringify(answer)}`)
}

const agentSession = async ({ client }: GovernedRun, coding_session: string) => {
  const { sessions } = await client.sessions.list()
  const found = sessions.find(
    ({ metadata }) => Reflect.get(Object(metadata), "coding_session") === coding_session
  )
  return found?.session_id ?? assert.fail("no agent session")
}

const options = { excludeTestServices: true, timeout: "60 seconds" } as const

layer(service(), options)("the identity of calls whose IDs repeat", (it) => {
  const RUNS = { numRuns: 12 }

  it.effect("countersign hook › one decision for each call, none executed twice", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("identity hook")
      const state = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-hook-"))),
        (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
      )
      let runs = 0
      const client = (): Client => {
        const session = `hook ${runs++}`
        const hook = async (input: object): Promise<unknown> => {
          const { key, url } = run
          const settings = { vendor: "claude-code", waitMillis: 0, defer: false } as const
          const result = await runHook(
            { ...settings, key, url, state, findAgent: () => undefined },
            Buffer.from(JSON.stringify(input))
          )
          assert.strictEqual(result.stderr, "")
          return JSON.parse(result.stdout)
        }
        return {
          ask: async (call) => decisionIn(await hook(inputOf(session, call))),
          report: async (call) => void (await hook(reportOf(session, call))),
          session: () => agentSession(run, session)
        }
      }
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(calls(ENDS), (sequence) => assertOneDecisionEach(run, client(), sequence)),
          { ...RUNS, examples: [[UNREPORTED]] }
        )
      )
    })
  )

  it.effect("HTTP hooks › one decision for each call, none executed twice", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("identity http")
      let runs = 0
      const client = (): Client => {
        const session = `http ${runs++}`
        const post = async (input: object): Promise<unknown> => {
          const response = await fetch(`${run.url}/v1/hooks/claude-code?wait_seconds=0`, {
            method: "POST",
            headers: { authorization: `Bearer ${run.key}`, "content-type": "application/json" },
            body: JSON.stringify(input)
          })
          return response.json()
        }
        return {
          ask: async (call) => decisionIn(await post(inputOf(session, call))),
          report: async (call) => assert.deepStrictEqual(await post(reportOf(session, call)), {}),
          session: () => agentSession(run, session)
        }
      }
      // Without an outcome, the service cannot tell the same call from another one.
      const reported = calls(["succeeded", "failed"])
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(reported, (sequence) => assertOneDecisionEach(run, client(), sequence)),
          RUNS
        )
      )
    })
  )

  it.effect("adapters › one decision for each call, none executed twice", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("identity gate")
      const reported = calls(["succeeded", "failed"])
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(reported, async (sequence) => {
            const { session_id } = await run.client.sessions.create()
            const gate = makeToolGate({ client: run.client, session: session_id, repeatedIds: "new" })
            let asked = { id: "", tool: "", arguments: {} }
            await assertOneDecisionEach(
              run,
              {
                ask: async ({ id, n, tool }) => {
                  asked = { id, tool, arguments: { n } }
                  const { verdict } = await gate.ask(asked, undefined, { wait: false })
                  return verdict === "allow" ? "allow" : "deny"
                },
                report: ({ end }) =>
                  gate.report(
                    asked,
                    undefined,
                    end === "failed" ? { status: "failed", error: "EACCES" } : { status: "succeeded" }
                  ),
                session: async () => session_id
              },
              sequence
            )
          }),
          RUNS
        )
      )
    })
  )
})
