import { assert, layer, vi } from "@effect/vitest"
import { Effect } from "effect"
import { makeToolGate } from "../../src/adapters/toolGate.ts"
import type { GateFault, Verdict } from "../../src/adapters/toolGate/publicTypes.ts"
import { callPromise } from "../../src/client/connect/CallPromise.ts"
import { connect } from "../../src/client/connect/index.ts"
import { ServiceUnreachable } from "../../src/client/ServiceUnreachable.ts"
import { service } from "../support/service.ts"
import { type ScriptedReply, startScriptedServer } from "../support/scripted.ts"
import { governedRun } from "./governedRun.ts"
import { eventually } from "./mcp/eventually.ts"

const unreachable = new ServiceUnreachable(
  { operation: "sessions.step", method: "POST", url: new URL("http://127.0.0.1:1/") },
  "ECONNREFUSED"
)

const refund = (id: string, amount = 50) => ({ id, tool: "refund", arguments: { amount } })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("makeToolGate", (it) => {
  it.effect("executes what a rule allows, and records its result", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("gate allows")
      const gate = makeToolGate({ client, session })
      yield* Effect.promise(async () => {
        const call = { id: "call_1", tool: "read", arguments: { file: "a" } }
        const executed = await gate.run(call, undefined, () => "text")
        assert.deepStrictEqual(executed, { verdict: "executed", result: "text" })
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
      })
    })
  )

  it.effect("sends a summary for the person who decides, cut to what the service accepts", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("gate summaries")
      const summaries: Record<string, string | undefined> = {
        short: "Refund 50 EUR",
        longest: "x".repeat(500),
        long: `${"x".repeat(498)}😀 and more`,
        none: undefined
      }
      const gate = makeToolGate({ client, session, summary: ({ id }) => summaries[id] })
      yield* Effect.promise(async () => {
        const sent: Array<string | null> = []
        for (const id of Object.keys(summaries)) {
          const verdict = await gate.ask(refund(id), undefined, { wait: false })
          const approval =
            verdict.verdict === "pending" ? verdict.decision.approval_id : assert.fail(verdict.verdict)
          sent.push((await client.approvals.get({ params: { id: approval ?? "" } })).agent_summary)
        }
        assert.deepStrictEqual(sent, ["Refund 50 EUR", "x".repeat(500), `${"x".repeat(498)}…`, null])
      })
    })
  )

  it.effect("tells the model what rejected a call", () =>
    Effect.gen(function* () {
      const { client, decide, session } = yield* governedRun("gate rejects")
      const gate = makeToolGate({ client, session })
      const denied = async (id: string, tool: string, person?: () => Promise<void>) => {
        const asked = gate.ask({ id, tool, arguments: { amount: 50 } }, undefined)
        await person?.()
        const verdict = await asked
        return verdict.verdict === "deny" ? verdict : assert.fail(verdict.verdict)
      }
      yield* Effect.promise(async () => {
        const byRule = await denied("1", "forbidden")
        assert.strictEqual(byRule.cause, "rule")
        assert.include(byRule.message, "Nobody may do this.")

        const byPerson = await denied("2", "refund", () =>
          decide("reject", "refund", { comment: "Wrong order" })
        )
        assert.strictEqual(byPerson.cause, "person")
        assert.include(byPerson.message, 'Their comment: "Wrong order".')

        const proposed = await denied("3", "refund", () =>
          decide("reject", "refund", { proposes: { amount: 20 } })
        )
        assert.include(proposed.message, "exactly these is allowed until")
        assert.include(proposed.message, '{"amount":20}')
        const second = await gate.ask({ id: "4", tool: "refund", arguments: { amount: 20 } }, undefined)
        assert.strictEqual(second.verdict, "allow")
      })
    })
  )

  it.effect("denies a call with the reviewer's question, and the same call under another ID waits on", () =>
    Effect.gen(function* () {
      const { client, conversation, decide, outcomes, say, session } = yield* governedRun("gate asked")
      const gate = makeToolGate({ client, session })
      yield* Effect.promise(async () => {
        const asked = gate.run(refund("call_1"), undefined, () => assert.fail("nothing was allowed"))
        const approval = await say("refund", "Why 50?")
        const denied = await asked
        if (denied.verdict !== "deny") return assert.fail(denied.verdict)
        assert.strictEqual(denied.cause, "question")
        assert.strictEqual(denied.decision?.decision, "pending")
        assert.include(denied.message, 'A reviewer asks: "Why 50?".')
        assert.include((await conversation(approval))[1], "agent: Your message was passed to the model")
        const again = gate.run(refund("call_2"), undefined, () => "refunded")
        await decide("approve", "refund")
        assert.deepStrictEqual(await again, { verdict: "executed", result: "refunded" })
        assert.lengthOf((await client.approvals.list()).approvals, 1)
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "refund", status: "succeeded" }])
      })
    })
  )

  it.effect("waits on with the approval of a reviewer's question after a request that failed", () =>
    Effect.gen(function* () {
      const { client, decide, outcomes, say, session } = yield* governedRun("gate asked and failed")
      let isReachable = true
      const govern: typeof client.govern = (...input) =>
        isReachable ? client.govern(...input) : Promise.reject(unreachable)
      const gate = makeToolGate({ client: { ...client, govern }, session, onFault: () => undefined })
      const causeOf = (verdict: Verdict) => (verdict.verdict === "deny" ? verdict.cause : verdict.verdict)
      yield* Effect.promise(async () => {
        const asked = gate.ask(refund("call_1"), undefined)
        await say("refund", "Why 50?")
        assert.strictEqual(causeOf(await asked), "question")
        isReachable = false
        assert.strictEqual(causeOf(await gate.ask(refund("call_2"), undefined)), "unreachable")
        isReachable = true
        assert.strictEqual(causeOf(await gate.ask(refund("call_3"), undefined, { wait: false })), "pending")
        const last = gate.run(refund("call_4"), undefined, () => "refunded")
        await decide("approve", "refund")
        assert.deepStrictEqual(await last, { verdict: "executed", result: "refunded" })
        assert.lengthOf((await client.approvals.list()).approvals, 1)
        // The decided step is not that of the next call.
        assert.strictEqual(causeOf(await gate.ask(refund("call_5"), undefined, { wait: false })), "pending")
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "refund", status: "succeeded" }])
      })
    })
  )

  it.effect("does not blame the service for a function of the settings that throws", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("gate functions throw")
      const failing = () => {
        throw Object.assign(new Error("No such customer"), { status: 503 })
      }
      const faults: Array<GateFault> = []
      const settings = { client, session, onFault: (fault: GateFault) => faults.push(fault) }
      yield* Effect.promise(async () => {
        for (const broken of [{ summary: failing }, { session: failing }, { actionClass: failing }]) {
          const gate = makeToolGate({ ...settings, ...broken, whenUnreachable: "allow" })
          const verdict = await gate.ask(refund("call_1"), undefined)
          if (verdict.verdict !== "deny") return assert.fail(verdict.verdict)
          assert.strictEqual(
            verdict.message,
            "This call could not be prepared, so it was not executed. No such customer."
          )
        }
        assert.lengthOf(faults, 3)
      })
    })
  )

  it.effect(
    "passes a question too that comes while the reviewers are told that the model has the first",
    () =>
      Effect.gen(function* () {
        const { client, say, session } = yield* governedRun("gate asked twice")
        const gate = makeToolGate({
          client: {
            ...client,
            approvals: {
              ...client.approvals,
              sendMessage: (input, options) =>
                callPromise(
                  say("refund", "And for whom?").then(() =>
                    client.approvals.sendMessage(input, options).withResponse()
                  )
                )
            }
          },
          session
        })
        yield* Effect.promise(async () => {
          const asked = gate.ask(refund("call_1"), undefined)
          await say("refund", "Why?")
          const verdict = await asked
          assert.include(
            verdict.verdict === "deny" ? verdict.message : verdict.verdict,
            'A reviewer asks: "Why?". A reviewer asks: "And for whom?".'
          )
        })
      })
  )

  it.effect("answers a question by the application, and tells what a person wants changed", () =>
    Effect.gen(function* () {
      const { client, conversation, decide, say, session } = yield* governedRun("gate answers")
      const gate = makeToolGate<string>({
        client,
        session,
        onMessage: async ({ text }, { id }, context) => `${context} ${id}: ${text}`
      })
      yield* Effect.promise(async () => {
        const asked = gate.ask(refund("call_1"), "run")
        const approval = await say("refund", "Why?")
        await eventually(async () =>
          assert.deepStrictEqual(await conversation(approval), ["reviewer: Why?", "agent: run call_1: Why?"])
        )
        const paused = await gate.ask(refund("call_2"), "run", { wait: false })
        assert.strictEqual(paused.verdict, "pending")
        await decide("request_changes", "refund", { comment: "At most 20", arguments: { amount: 50 } })
        await decide("request_changes", "refund", { comment: "At most 20", arguments: { amount: 50 } })
        const verdict = await asked
        if (verdict.verdict !== "deny") return assert.fail(verdict.verdict)
        assert.strictEqual(verdict.cause, "person")
        assert.include(verdict.message, 'What they want changed: "At most 20".')
        assert.include(verdict.message, "call the tool again with changed arguments")
      })
    })
  )

  it.effect("tells the comment of a rejection that another process waited for", () =>
    Effect.gen(function* () {
      const { client, decide, session } = yield* governedRun("gate resumes")
      const gate = makeToolGate({ client, session })
      yield* Effect.promise(async () => {
        const pending = await gate.ask(refund("call_1"), undefined, { wait: false })
        assert.strictEqual(pending.verdict, "pending")
        await decide("reject", "refund", { comment: "Not today" })
        const verdict = await gate.ask(refund("call_1"), undefined, { wait: false })
        assert.include(verdict.verdict === "deny" ? verdict.message : "", "Not today")
      })
    })
  )

  it.effect("asks parallel calls at once over one stream", () =>
    Effect.gen(function* () {
      const { decide, key, outcomes, session, url } = yield* governedRun("gate parallel")
      const opened: Array<string> = []
      const original = globalThis.fetch
      const counted = connect({ url, key })
      yield* Effect.addFinalizer(() => Effect.promise(() => counted.close()))
      globalThis.fetch = (input, init) => {
        opened.push(input instanceof Request ? input.url : String(input))
        return original(input, init)
      }
      yield* Effect.addFinalizer(() => Effect.sync(() => (globalThis.fetch = original)))
      const gate = makeToolGate({ client: counted, session })
      yield* Effect.promise(async () => {
        const executed: Array<number> = []
        const amounts = [1, 2, 3, 4, 5]
        const runs = amounts.map((amount) =>
          gate.run(refund(`call_${amount}`, amount), undefined, () => executed.push(amount))
        )
        // All wait before one is decided: a stream that nobody waits for is closed.
        await eventually(async () =>
          assert.lengthOf(
            (await counted.approvals.list({ query: { status: "pending" } })).approvals,
            amounts.length
          )
        )
        // The last is decided first: none waits for another.
        for (const amount of amounts.toReversed())
          await decide("approve", "refund", { arguments: { amount } })
        await Promise.all(runs)
        assert.sameMembers(executed, amounts)
        assert.strictEqual(opened.filter((url) => url.includes("/events/stream")).length, 1)
        assert.strictEqual((await outcomes()).length, 5)
      })
    })
  )

  it.effect("does not execute a call twice", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("gate once")
      const gate = makeToolGate({ client, session })
      const call = { id: "call_1", tool: "read", arguments: {} }
      yield* Effect.promise(async () => {
        await gate.run(call, undefined, () => "text")
        const again = await gate.run(call, undefined, () => assert.fail("executed again"))
        assert.strictEqual(again.verdict === "deny" ? again.cause : again.verdict, "executed")
      })
    })
  )

  it.effect("does not execute a call that nobody has decided about", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("gate pending")
      const gate = makeToolGate({ client, session })
      yield* Effect.promise(async () => {
        const executed = () => assert.fail("executed without a decision")
        const answer = await gate.run(refund("call_1"), undefined, executed, { wait: false })
        assert.strictEqual(answer.verdict, "pending")
      })
    })
  )

  it.effect("reports a failure, and rejects with it", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("gate failure")
      const gate = makeToolGate({ client, session })
      yield* Effect.promise(async () => {
        const failure = new Error("The bank is closed")
        const call = { id: "call_1", tool: "read", arguments: {} }
        const error = await gate.run(call, undefined, () => Promise.reject(failure)).catch((e: unknown) => e)
        assert.strictEqual(error, failure)
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "failed" }])
      })
    })
  )

  it.effect("records in place of a result that cannot be recorded why it is missing", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("gate results")
      const gate = makeToolGate({ client, session })
      const cycle: Record<string, unknown> = {}
      cycle["self"] = cycle
      yield* Effect.promise(async () => {
        for (const [id, result] of [1n, cycle, "x".repeat(5_000_000), () => 1, undefined].entries()) {
          await gate.run({ id: String(id), tool: "read", arguments: {} }, undefined, () => result)
        }
        assert.strictEqual((await outcomes()).length, 5)
      })
    })
  )

  it.effect("denies what cannot be asked, and says so", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("gate refused")
      const faults: Array<GateFault> = []
      const onFault = (fault: GateFault) => faults.push(fault)
      const allowing = { onFault, whenUnreachable: "allow" } as const
      const gate = makeToolGate({ client, session, ...allowing })
      const lost = makeToolGate({ client, session: `ses_${"0".repeat(32)}`, ...allowing })
      yield* Effect.promise(async () => {
        const verdicts = [
          await gate.ask({ id: "", tool: "read", arguments: {} }, undefined),
          await gate.ask({ id: "big", tool: "read", arguments: 1n }, undefined),
          await lost.ask({ id: "1", tool: "read", arguments: {} }, undefined)
        ]
        assert.deepStrictEqual(
          verdicts.map((verdict) => (verdict.verdict === "deny" ? verdict.cause : verdict.verdict)),
          ["refused", "refused", "refused"]
        )
        assert.strictEqual(faults.length, verdicts.length)
      })
    })
  )

  it.effect("finds the session of each run, and by default warns of what went wrong", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("gate warns")
      const warn = vi.spyOn(console, "warn").mockReturnValue()
      yield* Effect.addFinalizer(() => Effect.sync(() => warn.mockRestore()))
      const gate = makeToolGate<string>({
        client,
        session: async (run) => {
          if (run === "broken") throw new TypeError("No session")
          return run
        }
      })
      const call = { id: "call_1", tool: "read", arguments: {} }
      yield* Effect.promise(async () => {
        assert.strictEqual((await gate.run(call, session, () => "text")).verdict, "executed")
        assert.lengthOf(warn.mock.calls, 0)
        const verdict = await gate.run(call, "broken", () => assert.fail("executed"))
        assert.strictEqual(verdict.verdict === "deny" ? verdict.cause : verdict.verdict, "refused")
        await gate.report(call, "broken", { status: "succeeded" })
        assert.deepStrictEqual(warn.mock.calls, [
          ["countersign: no decision about read (call_1): No session"],
          ["countersign: no record of the outcome of read (call_1): No session"]
        ])
        assert.lengthOf(await outcomes(), 1)
      })
    })
  )

  it.effect("executes a call without a decision only if the service is down and the settings allow it", () =>
    Effect.gen(function* () {
      const { session } = yield* governedRun("gate unreachable")
      const faults: Array<GateFault> = []
      const verdictOf = Effect.fnUntraced(function* (
        reply: ScriptedReply,
        whenUnreachable: "allow" | "deny" = "allow"
      ) {
        const server = yield* startScriptedServer([reply])
        const client = connect({ url: server.url, key: "csk_any", retries: 0 })
        yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
        const onFault = (fault: GateFault) => faults.push(fault)
        const gate = makeToolGate({ client, session, onFault, whenUnreachable })
        const call = { id: "1", tool: "read", arguments: {} }
        const verdict = yield* Effect.promise(() => gate.ask(call, undefined))
        return verdict.verdict === "deny" ? verdict.cause : verdict.verdict
      })
      const verdicts = yield* Effect.all(
        [
          verdictOf({ status: 502 }, "deny"),
          verdictOf({ status: 408 }),
          verdictOf({ status: 429 }),
          verdictOf({ status: 403 }),
          verdictOf({ status: 500 }),
          verdictOf({ status: 502 }),
          verdictOf("hang up")
        ],
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(verdicts, [
        "unreachable",
        "unreachable",
        "unreachable",
        "refused",
        "allow",
        "allow",
        "allow"
      ])
      assert.lengthOf(faults, verdicts.length)
    })
  )

  it.effect("an outage does not allow a call that waits for a person", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("gate pending outage")
      const down = connect({ url: "http://127.0.0.1:9", key: "csk_any", retries: 0 })
      yield* Effect.addFinalizer(() => Effect.promise(() => down.close()))
      const gate = makeToolGate({
        client: { ...client, sessions: down.sessions },
        session,
        timeout: "100 millis",
        whenUnreachable: "allow",
        onFault: () => undefined
      })
      const verdict = yield* Effect.promise(() => gate.ask(refund("call_1"), undefined))
      assert.deepInclude(verdict, { verdict: "deny", cause: "unreachable" })
    })
  )

  it.effect("does not report a call that was executed without a decision", () =>
    Effect.gen(function* () {
      const { key, outcomes, session, url } = yield* governedRun("gate unrecorded")
      const sent: Array<string> = []
      const client = connect({ url, key, log: ({ operation }) => sent.push(operation) })
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      let isReachable = false
      const govern: typeof client.govern = (...input) =>
        isReachable ? client.govern(...input) : Promise.reject(unreachable)
      const gate = makeToolGate({
        client: { ...client, govern },
        session,
        onFault: () => undefined,
        whenUnreachable: "allow"
      })
      yield* Effect.promise(async () => {
        const call = { id: "call_1", tool: "read", arguments: {} }
        const run = () => gate.run(call, undefined, () => "text")
        assert.deepStrictEqual(await run(), { verdict: "executed", result: "text" })
        assert.deepStrictEqual(sent, [])
        isReachable = true
        assert.deepStrictEqual(await run(), { verdict: "executed", result: "text" })
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
      })
    })
  )

  it.effect("stops waiting when it is aborted or has waited long enough; the approval stays pending", () =>
    Effect.gen(function* () {
      const { client, decide, session } = yield* governedRun("gate aborted")
      const gate = makeToolGate({ client, session, timeout: "100 millis" })
      yield* Effect.promise(async () => {
        const verdict = await gate.ask(refund("call_1"), undefined)
        assert.strictEqual(verdict.verdict, "pending")
        const aborting = new AbortController()
        const patient = makeToolGate({ client, session })
        const asked = patient.ask(refund("call_1"), undefined, { signal: aborting.signal })
        aborting.abort(new Error("The run was aborted"))
        assert.include(String(await asked.catch((error: unknown) => error)), "The run was aborted")
        await decide("approve", "refund")
        assert.strictEqual((await gate.ask(refund("call_1"), undefined)).verdict, "allow")
      })
    })
  )
})
