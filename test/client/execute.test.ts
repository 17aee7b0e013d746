import { assert, layer, vi } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { connect } from "../../src/client/connect/index.ts"
import { Client, type ExecutionFault } from "../../src/client/index.ts"
import { makeToolGate } from "../../src/adapters/toolGate.ts"
import { SessionId, StepId } from "../../src/domain/Ids.ts"
import { governedRun } from "../adapters/governedRun.ts"
import { eventually } from "../adapters/mcp/eventually.ts"
import { service } from "../support/service.ts"
import { unhandledRejections } from "../webhook/unhandledRejections.ts"
import { yieldToPromises } from "./yieldToPromises.ts"

const step = { step_id: StepId.make("call_1"), tool: "read", action_class: "write", arguments: { amount: 1 } }

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("execute", (it) => {
  it.effect("executes a step once, in whichever process claims it, and reports its outcome", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("execute once")
      yield* Effect.promise(async () => {
        let executions = 0
        const runs = await Promise.allSettled(
          [1, 2, 3].map(() => client.execute(session, step, () => ({ number: ++executions })))
        )
        assert.strictEqual(executions, 1)
        const [done, ...others] = runs.toSorted((a, b) => a.status.localeCompare(b.status))
        assert.deepNestedInclude(done, { "value.decision": "allow", "value.result": { number: 1 } })
        for (const other of others) assert.nestedInclude(other, { "reason.code": "STEP_ALREADY_CLAIMED" })
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_1", tool: "read", status: "succeeded" }])
      })
    })
  )

  it.effect("does not execute a rejected step, and records the error of a tool", () =>
    Effect.gen(function* () {
      const { client, outcomes, session } = yield* governedRun("execute rejected")
      yield* Effect.promise(async () => {
        const forbidden = { ...step, tool: "forbidden" }
        const rejected = await client.execute(session, forbidden, () => assert.fail("executed"))
        assert.deepInclude(rejected, { decision: "reject", reason: "Nobody may do this" })
        const closed = new Error("The bank is closed")
        const failed = await client
          .execute(session, { ...step, step_id: "call_2" }, () => Promise.reject(closed))
          .catch((error: unknown) => error)
        assert.strictEqual(failed, closed)
        assert.deepStrictEqual(await outcomes(), [{ step_id: "call_2", tool: "read", status: "failed" }])
      })
    })
  )

  it.effect(
    "records the outcome of a tool whose result or error the service cannot store, with either client",
    () =>
      Effect.gen(function* () {
        const run = yield* governedRun("execute unstorable")
        const faults: Array<ExecutionFault> = []
        const onFault = (fault: ExecutionFault) => void faults.push(fault)
        const nested = (depth: number): unknown => JSON.parse("[".repeat(depth) + "]".repeat(depth))
        const results = {
          nul: { "a\0b": "\0 and \\u0000" },
          surrogate: ["\ud83d", "\ude00", "😀"],
          deep: nested(70),
          deepest: nested(3_000),
          long: Array.from({ length: 100_001 }, () => 1),
          names: Object.fromEntries(Array.from({ length: 20_001 }, (_, index) => [`n${index}`, 1]))
        }
        const { execute } = yield* Client.pipe(
          Effect.provide(Client.layer({ url: run.url, key: Redacted.make(run.key) }))
        )
        for (const [name, result] of Object.entries(results)) {
          yield* Effect.promise(() =>
            run.client.execute(run.session, { ...step, step_id: name }, () => result, { onFault })
          )
          const other = StepId.make(`${name} effect`)
          yield* execute(
            SessionId.make(run.session),
            { ...step, step_id: other },
            () => Effect.succeed(result),
            {
              onFault: (fault) => Effect.sync(() => onFault(fault))
            }
          )
        }
        const failing = run.client.execute(
          run.session,
          step,
          () => Promise.reject(new Error("a\0b \ud83d")),
          {
            onFault
          }
        )
        yield* Effect.promise(() => failing.catch(() => undefined))
        assert.deepStrictEqual(faults, [])
        const held = (step_id: string) =>
          Effect.promise(() =>
            run.client
              .execute(run.session, { ...step, step_id }, () => assert.fail("executed"))
              .catch((error: unknown) => error)
          )
        assert.deepNestedInclude(yield* held("nul"), {
          "outcome.result": { "a\ufffdb": "\ufffd and \\u0000" }
        })
        assert.deepNestedInclude(yield* held("surrogate effect"), {
          "outcome.result": ["\ufffd", "\ufffd", "😀"]
        })
        for (const step_id of ["deep", "long effect"]) {
          assert.nestedProperty(yield* held(step_id), "outcome.result.omitted")
        }
        assert.deepNestedInclude(yield* held("call_1"), { "outcome.error": "a\ufffdb \ufffd" })
      })
  )

  it.effect(
    "renews a claim at once that it gets again with a stored idempotency key, with either client",
    () =>
      Effect.gen(function* () {
        const run = yield* governedRun("execute again")
        const sent: Array<string> = []
        const faults: Array<ExecutionFault> = []
        const client = connect({
          url: run.url,
          key: run.key,
          log: ({ operation, status }) => sent.push(`${operation} ${status}`)
        })
        yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
        const renewals = () => sent.filter((line) => line === "sessions.renewClaim 200").length
        /** Claims a step as an earlier process, and renews the claim. */
        const claimBefore = async (step_id: string) => {
          const params = { id: run.session }
          const payload = { ...step, step_id, claim: true }
          const headers = { "idempotency-key": `stored-${step_id}` }
          const { claim } = await client.sessions.step({ params, headers, payload })
          if (claim === undefined) return assert.fail("not claimed")
          const renewal = { claim_id: claim.id, lease_seconds: 3_600 }
          const { claim: renewed } = await client.sessions.renewClaim({
            params: { ...params, step_id },
            payload: renewal
          })
          assert.isAbove(renewed.expires_at.getTime(), claim.expires_at.getTime())
          return claim.id
        }
        yield* Effect.promise(async () => {
          const claim_id = await claimBefore("call_1")
          const options = {
            idempotencyKey: "stored-call_1",
            onFault: (fault: ExecutionFault) => faults.push(fault)
          }
          const done = await client.execute(
            run.session,
            step,
            async ({ claim }) => {
              // The first is that of the earlier process.
              await eventually(() => assert.strictEqual(renewals(), 2))
              return claim.id
            },
            options
          )
          assert.strictEqual(done.decision === "allow" ? done.result : done.decision, claim_id)
          await claimBefore("call_2")
        })
        const isRenewed = Promise.withResolvers<void>()
        yield* Effect.gen(function* () {
          const { execute } = yield* Client
          const repeated = { ...step, step_id: StepId.make("call_2") }
          yield* execute(
            SessionId.make(run.session),
            repeated,
            () => Effect.promise(() => isRenewed.promise),
            {
              idempotencyKey: "stored-call_2",
              onFault: (fault) => Effect.sync(() => void faults.push(fault))
            }
          )
        }).pipe(
          Effect.provide(Client.layerHttp({ url: run.url, key: Redacted.make(run.key) })),
          Effect.provideServiceEffect(
            HttpClient.HttpClient,
            Effect.map(
              HttpClient.HttpClient,
              HttpClient.tap(({ request, status }) =>
                Effect.sync(() => {
                  if (request.url.includes("/claim") && status === 200) isRenewed.resolve()
                })
              )
            )
          ),
          Effect.provide(FetchHttpClient.layer)
        )
        assert.deepStrictEqual(faults, [])
        yield* Effect.promise(async () => {
          assert.deepStrictEqual(await run.executions(), [])
          assert.deepStrictEqual(
            (await run.outcomes()).map(({ status, step_id }) => `${step_id} ${status}`),
            ["call_1 succeeded", "call_2 succeeded"]
          )
        })
      })
  )

  it.effect("tries a renewal again within the lease that gets no response, with the Effect client", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("execute stalled renewal")
      const faults: Array<ExecutionFault> = []
      let renewals = 0
      const begun = Promise.withResolvers<void>()
      const isRenewed = Promise.withResolvers<void>()
      const stalling = Effect.map(
        HttpClient.HttpClient,
        HttpClient.transform((send, request) =>
          Effect.suspend(() => {
            if (!request.url.includes("/claim")) return send
            if (++renewals === 1) return Effect.never
            return Effect.tap(send, () => Effect.sync(isRenewed.resolve))
          })
        )
      )
      const client = Client.layerHttp({ url: run.url, key: Redacted.make(run.key) }).pipe(
        Layer.provide(Layer.effect(HttpClient.HttpClient, stalling)),
        Layer.provide(FetchHttpClient.layer)
      )
      yield* Effect.gen(function* () {
        const { execute } = yield* Client
        const fiber = yield* Effect.forkChild(
          execute(
            SessionId.make(run.session),
            { ...step, lease_seconds: 30 },
            () =>
              Effect.andThen(
                Effect.sync(begun.resolve),
                Effect.promise(() => isRenewed.promise)
              ),
            { onFault: (fault) => Effect.sync(() => void faults.push(fault)) }
          )
        )
        yield* Effect.promise(() => begun.promise)
        for (const duration of ["10 seconds", "10 seconds", "1 second"] as const) {
          yield* yieldToPromises
          yield* TestClock.adjust(duration)
        }
        yield* Effect.promise(() => eventually(() => assert.strictEqual(renewals, 2)))
        yield* Fiber.join(fiber)
      }).pipe(Effect.provide(Layer.merge(client, TestClock.layer())))
      assert.deepStrictEqual(faults, [])
      const [outcome] = yield* Effect.promise(run.outcomes)
      assert.deepInclude(outcome, { status: "succeeded" })
    })
  )

  it.effect("records the outcome of a tool as unknown that fails after its signal was aborted", () =>
    Effect.gen(function* () {
      const { client, executions, outcomes, session } = yield* governedRun("execute aborted")
      yield* Effect.promise(async () => {
        const aborting = new AbortController()
        const { signal } = aborting
        const stopped = new Error("The user left")
        const tool = () => {
          aborting.abort(stopped)
          return Promise.reject(stopped)
        }
        const failed = await client.execute(session, step, tool, { signal }).catch((error: unknown) => error)
        assert.strictEqual(failed, stopped)
        await eventually(async () => assert.deepInclude((await executions())[0], { state: "unknown" }))
        assert.deepStrictEqual(await outcomes(), [])
      })
    })
  )

  it.effect("returns the result of a tool although the function for faults fails, with either client", () =>
    Effect.gen(function* () {
      const { client, key, url } = yield* governedRun("execute failing onFault")
      const { execute } = yield* Client.pipe(Effect.provide(Client.layer({ url, key: Redacted.make(key) })))
      const failed = new Error("The pager is out of reach")
      const print = vi.spyOn(console, "error").mockImplementation(() => undefined)
      yield* Effect.addFinalizer(() => Effect.sync(() => print.mockRestore()))
      /** Runs a tool that closes its session, so that neither the renewals nor the report can succeed. */
      const run = async (
        failure: "throws" | "rejects",
        execute: (
          session: string,
          tool: () => Promise<string>,
          onFault: (fault: { readonly operation: string }) => void
        ) => Promise<unknown>
      ) => {
        const { session_id } = await client.sessions.create()
        const operations: Array<string> = []
        const isLost = Promise.withResolvers<void>()
        const tool = async () => {
          await client.sessions.close(session_id)
          await isLost.promise
          return "refunded"
        }
        const throwing = ({ operation }: { readonly operation: string }) => {
          operations.push(operation)
          if (operation === "renew") isLost.resolve()
          throw failed
        }
        const rejecting = async (fault: { readonly operation: string }) => throwing(fault)
        const executed = await execute(session_id, tool, failure === "throws" ? throwing : rejecting)
        assert.deepInclude(executed, { result: "refunded" })
        assert.deepStrictEqual(operations, ["renew", "report"])
      }
      const short = { ...step, lease_seconds: 1 }
      const unhandled = yield* Effect.promise(() =>
        unhandledRejections(async () => {
          for (const failure of ["throws", "rejects"] as const) {
            await run(failure, (session, tool, onFault) => client.execute(session, short, tool, { onFault }))
            await run(failure, (session, tool, onFault) =>
              makeToolGate({ client, session, leaseSeconds: 1, onFault }).run(
                { id: "call_1", tool: "read", arguments: {} },
                undefined,
                tool
              )
            )
            await run(failure, (session, tool, onFault) =>
              Effect.runPromise(
                execute(SessionId.make(session), short, () => Effect.promise(tool), {
                  onFault: (fault) =>
                    failure === "throws"
                      ? Effect.sync(() => onFault(fault))
                      : Effect.promise(async () => onFault(fault))
                })
              )
            )
          }
        })
      )
      assert.deepStrictEqual(unhandled, [])
      assert.strictEqual(
        print.mock.calls.filter(([text]) => text === "countersign: onFault failed:").length,
        12
      )
    })
  )

  it.effect("executes a step once with the Effect client, and leaves an interrupted one unknown", () =>
    Effect.gen(function* () {
      const run = yield* governedRun("execute effect")
      const session = SessionId.make(run.session)
      const faults: Array<ExecutionFault> = []
      const onFault = (fault: ExecutionFault) => Effect.sync(() => void faults.push(fault))
      yield* Effect.gen(function* () {
        const { execute } = yield* Client
        const done = yield* execute(session, step, ({ claim }) => Effect.succeed(claim.id))
        assert.match(done.decision === "allow" ? done.result : "", /^clm_/)
        const again = yield* Effect.flip(execute(session, step, () => Effect.die("executed")))
        assert.strictEqual(again.code, "STEP_ALREADY_CLAIMED")

        const failing = { ...step, step_id: StepId.make("call_2") }
        const failed = yield* Effect.flip(execute(session, failing, () => Effect.fail("closed" as const)))
        assert.strictEqual(failed, "closed")

        const begun = Promise.withResolvers<void>()
        let isReleased = false
        const hanging = { ...step, step_id: StepId.make("call_3"), lease_seconds: 3_600 }
        const tool = Effect.sync(() => begun.resolve()).pipe(
          Effect.andThen(Effect.never),
          Effect.ensuring(Effect.sync(() => (isReleased = true)))
        )
        const fiber = yield* Effect.forkChild(execute(session, hanging, () => tool, { onFault }))
        yield* Effect.promise(() => begun.promise)
        yield* Fiber.interrupt(fiber)
        assert.isTrue(isReleased)
      }).pipe(Effect.provide(Client.layer({ url: run.url, key: Redacted.make(run.key) })))
      yield* Effect.promise(async () => {
        await eventually(async () =>
          assert.deepInclude((await run.executions())[0], {
            state: "unknown",
            step_id: StepId.make("call_3")
          })
        )
        assert.deepStrictEqual(faults, [])
        assert.deepStrictEqual(
          (await run.outcomes()).map(({ status, step_id }) => `${step_id} ${status}`),
          ["call_1 succeeded", "call_2 failed"]
        )
      })
    })
  )
})
