import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { Client, type ExecutionFault } from "../../src/client/index.ts"
import { SessionId, StepId } from "../../src/domain/Ids.ts"
import { governedRun } from "../adapters/governedRun.ts"
import { eventually } from "../adapters/mcp/eventually.ts"
import { service } from "../support/service.ts"

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
        const hanging = { ...step, step_id: StepId.make("call_3"), lease_seconds: 1 }
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
