import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { type SessionId, StepId } from "../../../src/domain/Ids.ts"
import { DecisionWaits } from "../../../src/server/approvals/DecisionWaits.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"
import { layerTwoReplicas, SecondReplica } from "../../support/twoReplicas.ts"

const step = {
  step_id: StepId.make("1"),
  tool: "payments.refund",
  action_class: "write",
  arguments: { order: "4711" }
}

const submit = (client: ClientCalls, id: SessionId, wait_seconds: number, claim = false) =>
  client.sessions.step({ params: { id }, query: { wait_seconds }, payload: { ...step, claim } })

/** Returns once so many requests wait on this replica. */
const waitFor = (count: number) =>
  Effect.flatMap(DecisionWaits, ({ waiting }) =>
    Effect.repeat(waiting, { until: (waits) => waits === count, schedule: Schedule.spaced("20 millis") })
  )

layer(service(), { excludeTestServices: true })("A step that waits", (it) => {
  it.effect("is answered as soon as a person decides, and claims the step in the same request", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const agent = yield* countersign.client({}, "waits")
      const reviewer = yield* countersign.client({}, "waits")
      const { session_id } = yield* agent.sessions.create({})
      const { approval_id } = yield* submit(agent, session_id, 0)
      const waiting = yield* Effect.forkChild(submit(agent, session_id, 60, true))
      yield* waitFor(1)
      yield* reviewer.approvals.decide({
        params: { id: approval_id ?? assert.fail("an approval") },
        payload: { decision: "approve", comment: "fine" }
      })
      const { claim, comment, decision } = yield* Fiber.join(waiting)
      assert.deepStrictEqual([decision, comment, claim?.attempt], ["allow", "fine", 1])
    })
  )

  it.effect("is answered as pending when the time is over, and at once if its rule decides", () =>
    Effect.gen(function* () {
      const agent = yield* (yield* Countersign).client({}, "time over")
      const { session_id } = yield* agent.sessions.create({})
      assert.strictEqual((yield* submit(agent, session_id, 1)).decision, "pending")
      yield* agent.approvalRules.replace({ payload: { rules: [{ tool: "payments.*", effect: "reject" }] } })
      assert.strictEqual((yield* submit(agent, session_id, 60)).decision, "reject")
    })
  )

  it.effect("is answered when the session is closed meanwhile", () =>
    Effect.gen(function* () {
      const agent = yield* (yield* Countersign).client({}, "closes")
      const { session_id } = yield* agent.sessions.create({})
      const waiting = yield* Effect.forkChild(Effect.flip(submit(agent, session_id, 60)))
      yield* waitFor(1)
      yield* agent.sessions.close({ params: { id: session_id } })
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "SESSION_CLOSED")
    })
  )

  it.effect("waits a whole number of seconds up to a minute, and nothing else", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { session_id } = yield* (yield* countersign.client({}, "limits")).sessions.create({})
      const key = yield* countersign.key({}, "limits")
      for (const seconds of ["61", "-1", "1.5", "soon", ""]) {
        const { body, status } = yield* send(
          `/v1/agent-sessions/${session_id}/steps?wait_seconds=${seconds}`,
          {
            key,
            method: "POST",
            body: JSON.stringify(step)
          }
        )
        assert.deepStrictEqual([seconds, status, body["code"]], [seconds, 400, "INVALID_REQUEST"])
      }
    })
  )
})

layer(layerTwoReplicas, { excludeTestServices: true })("A step that waits on one replica", (it) => {
  it.effect("is answered when a person decides on another", () =>
    Effect.gen(function* () {
      const agent = yield* (yield* Countersign).client({}, "two replicas")
      const reviewer = yield* Effect.provideContext(
        Effect.flatMap(Countersign, ({ client }) => client({}, "two replicas")),
        yield* SecondReplica
      )
      const { session_id } = yield* agent.sessions.create({})
      const { approval_id } = yield* submit(agent, session_id, 0)
      const waiting = yield* Effect.forkChild(submit(agent, session_id, 60))
      yield* waitFor(1)
      yield* reviewer.approvals.decide({
        params: { id: approval_id ?? assert.fail("an approval") },
        payload: { decision: "approve" }
      })
      assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
    })
  )
})
