import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { makeToolGate } from "../../src/adapters/toolGate.ts"
import type { GateFault } from "../../src/adapters/toolGate/publicTypes.ts"
import { connect } from "../../src/client/connect/index.ts"
import { makeRuntime } from "../../src/client/PromiseRuntime.ts"
import { service } from "../support/service.ts"
import { governedRun } from "./governedRun.ts"
import { eventually } from "./mcp/eventually.ts"

const read = { id: "call_1", tool: "read", arguments: { amount: 1 } }
const repeatable = { ...read, tool: "repeatable" }

/** A clock that stands still: no claim is renewed. */
const stopped = { now: () => 0, random: () => 0, sleep: () => new Promise<void>(() => undefined) }

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("claims of makeToolGate", (it) => {
  it.effect("claims a call that a person has approved, and executes it once", () =>
    Effect.gen(function* () {
      const { client, decide, outcomes, session } = yield* governedRun("claims approved")
      const call = { ...read, tool: "refund" }
      yield* Effect.promise(async () => {
        const executed: Array<string | undefined> = []
        const runs = [1, 2, 3].map(() =>
          makeToolGate({ client, session }).run(call, undefined, (claim) => executed.push(claim?.id))
        )
        await decide("approve", "refund")
        const ends = await Promise.all(runs)
        assert.lengthOf(executed, 1)
        assert.match(String(executed[0]), /^clm_/)
        assert.sameMembers(
          ends.map((end) => (end.verdict === "deny" ? "denied" : end.verdict)),
          ["executed", "denied", "denied"]
        )
        assert.lengthOf(await outcomes(), 1)
      })
    })
  )

  it.effect("tells the recorded outcome instead of executing a call again", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("claims completed")
      yield* Effect.promise(async () => {
        const gate = () => makeToolGate({ client, session })
        await gate().run(read, undefined, () => ({ balance: 42 }))
        const again = await gate().ask({ ...read }, undefined)
        if (again.verdict !== "deny") return assert.fail(again.verdict)
        assert.strictEqual(again.cause, "executed")
        assert.include(again.message, 'It succeeded: {"balance":42}')
        await gate()
          .run({ ...read, id: "call_2" }, undefined, () => Promise.reject(new Error("The bank is closed")))
          .catch(() => undefined)
        const failed = await gate().ask({ ...read, id: "call_2" }, undefined)
        assert.include(failed.verdict === "deny" ? failed.message : "", 'It failed: "The bank is closed"')
      })
    })
  )

  it.effect("gets the same claim if the response to the claiming request was lost", () =>
    Effect.gen(function* () {
      const { key, outcomes, session, url } = yield* governedRun("claims response lost")
      const client = connect({ url, key, retries: 0 })
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      const original = globalThis.fetch
      let lost = 0
      globalThis.fetch = async (input, init) => {
        const response = await original(input, init)
        if (!String(input instanceof Request ? input.url : input).endsWith("/steps") || lost > 0)
          return response
        lost++
        await response.text()
        throw new TypeError("fetch failed")
      }
      yield* Effect.addFinalizer(() => Effect.sync(() => (globalThis.fetch = original)))
      yield* Effect.promise(async () => {
        const end = await makeToolGate({ client, session }).run(read, undefined, () => "done")
        assert.strictEqual(lost, 1)
        assert.deepStrictEqual(end, { verdict: "executed", result: "done" })
        assert.lengthOf(await outcomes(), 1)
      })
    })
  )

  it.effect("renews the claim while the tool runs, and not longer", () =>
    Effect.gen(function* () {
      const { executions, key, outcomes, session, url } = yield* governedRun("claims renewed")
      const sent: Array<string> = []
      const client = connect({ url, key, log: ({ operation }) => sent.push(operation) })
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      const ended = Promise.withResolvers<string>()
      const renewals = () => sent.filter((operation) => operation === "sessions.renewClaim").length
      yield* Effect.gen(function* () {
        const { clock } = yield* makeRuntime
        const gate = makeToolGate({ client, session, leaseSeconds: 3_600 }, clock)
        const running = gate.run(read, undefined, () => ended.promise)
        yield* Effect.promise(() => eventually(() => assert.lengthOf(sent, 1)))
        for (const renewal of [1, 2, 3, 4]) {
          yield* TestClock.adjust("20 minutes")
          yield* Effect.promise(() => eventually(() => assert.strictEqual(renewals(), renewal)))
        }
        ended.resolve("done")
        yield* Effect.promise(() => running)
        yield* TestClock.adjust("10 hours")
      }).pipe(Effect.provide(TestClock.layer()))
      yield* Effect.promise(async () => {
        assert.strictEqual(renewals(), 4)
        assert.deepStrictEqual(await executions(), [])
        assert.lengthOf(await outcomes(), 1)
      })
    })
  )

  it.effect("stops renewing the claim of a call whose run was aborted", () =>
    Effect.gen(function* () {
      const { executions, key, session, url } = yield* governedRun("claims aborted")
      const client = connect({ url, key })
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      const aborting = new AbortController()
      yield* Effect.promise(async () => {
        const gate = makeToolGate({ client, session, leaseSeconds: 1 })
        await gate.ask(read, undefined, { signal: aborting.signal })
        aborting.abort()
        await eventually(async () => assert.deepInclude((await executions())[0], { state: "unknown" }))
      })
    })
  )

  it.effect("says that a claim was lost, and reports the outcome late", () =>
    Effect.gen(function* () {
      const { client, executions, session } = yield* governedRun("claims lost")
      const faults: Array<GateFault> = []
      yield* Effect.gen(function* () {
        const { clock } = yield* makeRuntime
        const gate = makeToolGate(
          { client, session, leaseSeconds: 1, onFault: (fault) => faults.push(fault) },
          clock
        )
        const ended = Promise.withResolvers<string>()
        const running = gate.run(read, undefined, () => ended.promise)
        yield* Effect.promise(() =>
          eventually(async () => assert.deepInclude((await executions())[0], { state: "unknown" }))
        )
        yield* TestClock.adjust("1 second")
        yield* Effect.promise(() => eventually(() => assert.lengthOf(faults, 1)))
        ended.resolve("done")
        assert.strictEqual((yield* Effect.promise(() => running)).verdict, "executed")
      }).pipe(Effect.provide(TestClock.layer()))
      assert.deepStrictEqual(
        faults.map(({ error, operation }) => [
          operation,
          error instanceof Error ? Reflect.get(error, "code") : error
        ]),
        [["renew", "CLAIM_MISMATCH"]]
      )
      const [execution] = yield* Effect.promise(executions)
      assert.deepInclude(execution, { state: "completed" })
      assert.deepInclude(execution?.outcome, { status: "succeeded", late: true })
    })
  )

  it.effect("executes an unknown call again only if the tool and the rule allow it, with the same key", () =>
    Effect.gen(function* () {
      const { client, executions, session } = yield* governedRun("claims after unknown")
      const keys: Array<string> = []
      const options = {
        client,
        session,
        leaseSeconds: 1,
        onClaim: (claim: { readonly idempotency_key: string }) => keys.push(claim.idempotency_key)
      }
      yield* Effect.promise(async () => {
        for (const call of [read, { ...repeatable, id: "call_2" }])
          await makeToolGate(options, stopped).ask(call, undefined)
        await eventually(async () =>
          assert.deepStrictEqual(
            (await executions()).map(({ state }) => state),
            ["unknown", "unknown"]
          )
        )
        const cause = async (call: typeof read, afterUnknown: boolean) => {
          const gate = makeToolGate({ ...options, afterUnknown }, stopped)
          const end = await gate.run({ ...call }, undefined, () => "done")
          return end.verdict === "deny" ? end.cause : end.verdict
        }
        assert.strictEqual(await cause({ ...repeatable, id: "call_2" }, false), "unknown")
        // Its rule does not say `retry_unknown`.
        assert.strictEqual(await cause(read, true), "unknown")
        assert.strictEqual(await cause({ ...repeatable, id: "call_2" }, true), "executed")
        assert.lengthOf(keys, 3)
        assert.strictEqual(keys[2], keys[1])
        assert.notStrictEqual(keys[1], keys[0])
      })
    })
  )

  it.effect("executes an unknown call once more after a person has allowed it", () =>
    Effect.gen(function* () {
      const { client, executions, resolve, session } = yield* governedRun("claims resolved")
      yield* Effect.promise(async () => {
        await makeToolGate({ client, session, leaseSeconds: 1 }, stopped).ask(read, undefined)
        await eventually(async () => assert.deepInclude((await executions())[0], { state: "unknown" }))
        const [unknown] = await executions()
        if (unknown === undefined) return assert.fail("not listed")
        await resolve(unknown.claim_id, "retry")
        const executed: Array<number> = []
        const ends = await Promise.all(
          [1, 2].map((agent) =>
            makeToolGate({ client, session }).run({ ...read }, undefined, () => executed.push(agent))
          )
        )
        assert.lengthOf(executed, 1)
        assert.lengthOf(
          ends.filter(({ verdict }) => verdict === "executed"),
          1
        )
      })
    })
  )

  it.effect(
    "goes on renewing the claim of a tool that has suspended its run, at once if it resumes late",
    () =>
      Effect.gen(function* () {
        const { executions, key, outcomes, session, url } = yield* governedRun("claims resumed late")
        const sent: Array<string> = []
        const faults: Array<GateFault> = []
        const client = connect({ url, key, log: ({ operation }) => sent.push(operation) })
        yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
        const renewed = (count: number) =>
          Effect.promise(() =>
            eventually(() =>
              assert.lengthOf(
                sent.filter((operation) => operation === "sessions.renewClaim"),
                count
              )
            )
          )
        yield* Effect.gen(function* () {
          const { clock } = yield* makeRuntime
          const onFault = (fault: GateFault) => faults.push(fault)
          const gate = makeToolGate({ client, session, leaseSeconds: 3_600, onFault }, clock)
          const resume = Effect.fnUntraced(function* () {
            const call = { ...read }
            const verdict = yield* Effect.promise(() => gate.ask(call, undefined))
            assert.strictEqual(verdict.verdict, "allow")
            return call
          })
          gate.suspend(yield* resume())
          yield* TestClock.adjust("19 minutes")
          gate.suspend(yield* resume())
          yield* TestClock.adjust("1 minute")
          yield* renewed(1)
          // A third of the lease may have passed: the process does not ask the service when it was renewed.
          yield* TestClock.adjust("1 minute")
          const last = yield* resume()
          yield* renewed(2)
          yield* TestClock.adjust("20 minutes")
          yield* renewed(3)
          yield* Effect.promise(() => gate.report(last, undefined, { status: "succeeded" }))
        }).pipe(Effect.provide(TestClock.layer()))
        assert.deepStrictEqual(faults, [])
        yield* Effect.promise(async () => {
          assert.deepStrictEqual(await executions(), [])
          assert.lengthOf(await outcomes(), 1)
        })
      })
  )

  it.effect("does not leave a claim behind if onClaim throws, and says what failed", () =>
    Effect.gen(function* () {
      const { client, executions, outcomes, session } = yield* governedRun("claims onClaim throws")
      const faults: Array<GateFault> = []
      const closed = new Error("The journal is full")
      const gate = makeToolGate({
        client,
        session,
        leaseSeconds: 1,
        onClaim: () => Promise.reject(closed),
        onFault: (fault) => faults.push(fault)
      })
      yield* Effect.promise(async () => {
        const end = await gate.run(read, undefined, () => assert.fail("executed"))
        if (end.verdict !== "deny") return assert.fail(end.verdict)
        assert.strictEqual(
          end.message,
          "This call could not be prepared, so it was not executed. The journal is full."
        )
        assert.deepStrictEqual(faults, [{ call: read, operation: "ask", error: closed }])
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "failed" }])
        assert.deepStrictEqual(await executions(), [])
      })
    })
  )

  it.effect("stops renewing the claim of the oldest of 10,001 calls that have suspended their runs", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("claims evicted")
      const { claim, ...step } = yield* Effect.promise(() =>
        client.sessions.step({
          params: { id: session },
          payload: { step_id: "call_0", tool: "read", action_class: "write", claim: true }
        })
      )
      if (claim === undefined) return assert.fail("not claimed")
      const signals: Array<AbortSignal> = []
      const clock = {
        ...stopped,
        sleep: (_: number, signal: AbortSignal) => {
          signals.push(signal)
          return stopped.sleep()
        }
      }
      const govern: typeof client.govern = async (_, { step_id }) => ({
        ...step,
        step_id,
        decision: "allow",
        approval: null,
        claim: { ...claim, step_id }
      })
      const gate = makeToolGate({ client: { ...client, govern }, session }, clock)
      for (let call = 0; call <= 10_000; call++) {
        const suspending = { ...read, id: `call_${call}` }
        yield* Effect.promise(() => gate.ask(suspending, undefined))
        gate.suspend(suspending)
      }
      assert.deepStrictEqual(
        signals.flatMap(({ aborted }, index) => (aborted ? [index] : [])),
        [0]
      )
    })
  )

  it.effect("keeps the claim of a tool that has suspended its run, for the next attempt alone", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("claims suspended")
      yield* Effect.promise(async () => {
        const gate = makeToolGate({ client, session })
        const first = { ...read }
        const verdict = await gate.ask(first, undefined)
        gate.suspend(first)
        const resumed = [{ ...read }, { ...read }]
        const asked = await Promise.all(resumed.map((call) => gate.ask(call, undefined)))
        const allowed = asked.filter((one) => one.verdict === "allow")
        assert.lengthOf(allowed, 1)
        assert.strictEqual(allowed[0]?.claim?.id, verdict.verdict === "allow" ? verdict.claim?.id : undefined)
        const call = resumed[asked.findIndex((one) => one.verdict === "allow")]
        if (call !== undefined) await gate.report(call, undefined, { status: "succeeded" })
        assert.lengthOf(await outcomes(), 1)
      })
    })
  )
})
