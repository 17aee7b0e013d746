import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("Steps", (it) => {
  const open = Effect.gen(function* () {
    const countersign = yield* Countersign
    const key = yield* countersign.key({ preset: "runtime" })
    const agent = yield* countersign.clientWith(key)
    const reviewer = yield* countersign.client({ preset: "reviewer" })
    const { session_id } = yield* agent.sessions.create({})
    return { agent, key, params: { id: session_id }, reviewer }
  })
  const payload = { step_id: StepId.make("step"), tool: "t", action_class: "c" }

  it.effect("arguments are accepted up to 4 MiB, and nothing is stored of larger ones", () =>
    Effect.gen(function* () {
      const { agent, key, params } = yield* open
      const body = (size: number) => JSON.stringify({ ...payload, arguments: "x".repeat(size) })
      const over = yield* send(`/v1/agent-sessions/${params.id}/steps`, {
        method: "POST",
        key,
        body: body(4 * 1024 * 1024)
      })
      assert.strictEqual(over.status, 413)
      assert.strictEqual(over.body["code"], "PAYLOAD_TOO_LARGE")
      const sql = yield* SqlClient.SqlClient
      const stored = yield* sql`SELECT 1 FROM governed_steps WHERE session_id = ${params.id}`
      assert.lengthOf(stored, 0)
      const room = "x".repeat(4 * 1024 * 1024 - body(0).length)
      const taken = yield* agent.sessions.step({ params, payload: { ...payload, arguments: room } })
      assert.strictEqual(taken.decision, "pending")
    })
  )

  it.effect("absent arguments, null and an empty object are different", () =>
    Effect.gen(function* () {
      const { agent, key, params } = yield* open
      const given = [{}, { arguments: null }, { arguments: {} }]
      const digests = new Set<string>()
      for (const [index, some] of given.entries()) {
        const step = { ...payload, ...some, step_id: StepId.make("step") }
        const session =
          index === 0 ? { id: params.id } : { id: (yield* agent.sessions.create({})).session_id }
        const { approval_id, arguments_digest } = yield* agent.sessions.step({
          params: session,
          payload: step
        })
        digests.add(arguments_digest)
        if (approval_id === null) return assert.fail("expected a pending approval")
        const shown = yield* send(`/v1/agent-approvals/${approval_id}`, { key })
        assert.deepStrictEqual("arguments" in shown.body ? { arguments: shown.body["arguments"] } : {}, some)
      }
      assert.strictEqual(digests.size, 3)
    })
  )

  it.effect("steps and outcomes of a closed session answer SESSION_CLOSED, approved or not", () =>
    Effect.gen(function* () {
      const { agent, params, reviewer } = yield* open
      const { approval_id } = yield* agent.sessions.step({ params, payload })
      if (approval_id === null) return assert.fail("expected a pending approval")
      yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      yield* agent.sessions.close({ params })
      const resumed = yield* Effect.flip(agent.sessions.step({ params, payload }))
      assert.strictEqual(resumed._tag, "SESSION_CLOSED")
      const outcome = yield* Effect.flip(
        agent.sessions.reportOutcome({
          params: { ...params, step_id: payload.step_id },
          payload: { status: "succeeded" }
        })
      )
      assert.strictEqual(outcome._tag, "SESSION_CLOSED")
      // Closing a session does not change decisions that were made before.
      const approval = yield* reviewer.approvals.get({ params: { id: approval_id } })
      assert.strictEqual(approval.status, "approved")
    })
  )

  it.effect("an outcome is recorded only for an allowed step, and once under concurrent reports", () =>
    Effect.gen(function* () {
      const { agent, params, reviewer } = yield* open
      const report = {
        params: { ...params, step_id: payload.step_id },
        payload: { status: "failed" as const, error: "no such order", result: { tried: 3 } }
      }
      assert.propertyVal(yield* Effect.flip(agent.sessions.reportOutcome(report)), "_tag", "NOT_FOUND")
      const { approval_id } = yield* agent.sessions.step({ params, payload })
      assert.propertyVal(yield* Effect.flip(agent.sessions.reportOutcome(report)), "_tag", "STEP_NOT_ALLOWED")
      if (approval_id === null) return assert.fail("expected a pending approval")
      yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      const results = yield* Effect.all(
        Array.from({ length: 6 }, () => Effect.result(agent.sessions.reportOutcome(report))),
        { concurrency: "unbounded" }
      )
      assert.sameMembers(
        results.map((result) => (result._tag === "Success" ? result.success.status : result.failure._tag)),
        ["failed", ...Array.from({ length: 5 }, () => "STEP_ALREADY_COMPLETED")]
      )
    })
  )

  it.effect("secrets in the error of an outcome are redacted", () =>
    Effect.gen(function* () {
      const { agent, params, reviewer } = yield* open
      const { approval_id } = yield* agent.sessions.step({ params, payload })
      if (approval_id === null) return assert.fail("expected a pending approval")
      yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      const token = ["ghp", "1Q2w3E4r5T6y7U8i9O0pAsDfGhJkLzXcVbNm"].join("_")
      const { error } = yield* agent.sessions.reportOutcome({
        params: { ...params, step_id: payload.step_id },
        payload: { status: "failed", error: `401 with ${token}` }
      })
      assert.strictEqual(error, "401 with [REDACTED]")
    })
  )

  const longest = [
    ["letters", "s".repeat(200)],
    ["what paths write in other ways", "50% of /orders/7 ü?#;+ ".repeat(10).slice(0, 199) + "."]
  ] as const
  it.effect.each(longest)(
    "a step with an id of 200 characters (%s) can be requested and completed",
    ([, name]) =>
      Effect.gen(function* () {
        const { agent, params, reviewer } = yield* open
        const step_id = StepId.make(name)
        const { approval_id } = yield* agent.sessions.step({ params, payload: { ...payload, step_id } })
        if (approval_id === null) return assert.fail("expected a pending approval")
        yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
        const report = { params: { ...params, step_id }, payload: { status: "succeeded" as const } }
        assert.strictEqual((yield* agent.sessions.reportOutcome(report)).step_id, step_id)
      })
  )
})
