/**
 * Replaces the network of the service: webhooks go to a queue of the test instead of a receiver. Everything else is real, so the test sees the
 * bytes and signatures that a receiver would.
 */
import { assert, layer } from "@effect/vitest"
import { StepId } from "countersign/api"
import { Egress, type EgressRequest, type EgressResponse } from "countersign/server"
import { Countersign } from "countersign/testing"
import { verify } from "countersign/webhook"
import { Context, Effect, Layer, Queue } from "effect"

/** The requests that the service would have sent. */
class Sent extends Context.Service<Sent, Queue.Queue<EgressRequest>>()("example/Sent") {
  static readonly layer = Layer.effect(Sent, Queue.unbounded<EgressRequest>())
}

const noContent: EgressResponse = {
  status: 204,
  retryAfter: undefined,
  body: new Uint8Array(),
  complete: true
}

/** An egress that answers every request with 204. */
const FakeEgress = Layer.unwrap(
  Effect.map(Sent, (sent) => Egress.layerTest((request) => Effect.as(Queue.offer(sent, request), noContent)))
)

const TestLayer = Countersign.layer({ replace: FakeEgress }).pipe(Layer.provideMerge(Sent.layer))

layer(TestLayer, { timeout: "60 seconds" })("A fake egress", (it) => {
  it.effect("gets the signed webhook of a requested approval", () =>
    Effect.gen(function* () {
      const { notificationEndpoints, sessions } = yield* (yield* Countersign).client()
      const { secret } = yield* notificationEndpoints.create({
        payload: { url: "https://hooks.acme.com/countersign" }
      })
      const { session_id } = yield* sessions.create()
      const { approval_id } = yield* sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("refund-1"), tool: "payments.refund", action_class: "write" }
      })

      const { body, headers, url } = yield* Queue.take(yield* Sent)
      assert.strictEqual(url, "https://hooks.acme.com/countersign")
      const result = yield* Effect.promise(() => verify(body, headers, secret))
      if (!result.ok) return assert.fail(result.reason)
      assert.strictEqual(result.event.type, "approval.requested")
      assert.strictEqual(result.event.approval?.approval_id, approval_id)
    })
  )
})
