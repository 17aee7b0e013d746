/**
 * Tests an application against the real service, in this process: `Countersign.layer()` is the whole service over a temporary
 * database. The application's own layer is composed with it and is given a client with the scopes of an agent.
 */
import { assert, layer } from "@effect/vitest"
import { StepId, type SessionId } from "countersign/api"
import { Client } from "countersign/client"
import { Countersign } from "countersign/testing"
import { Context, Effect, Fiber, Layer } from "effect"

/** The application under test: refunds an order if a person approves. */
class Refunds extends Context.Service<
  Refunds,
  { readonly refund: (session: SessionId, order: string) => Effect.Effect<"refunded" | "rejected"> }
>()("example/Refunds") {
  static readonly layer = Layer.effect(
    Refunds,
    Effect.gen(function* () {
      const { govern } = yield* Client
      return Refunds.of({
        refund: Effect.fn("Refunds.refund")(function* (session, order) {
          const step_id = StepId.make(`refund-${order}`)
          const { decision } = yield* govern(session, {
            step_id,
            tool: "orders.refund",
            action_class: "write",
            arguments: { order }
          }).pipe(Effect.orDie)
          return decision === "allow" ? "refunded" : "rejected"
        })
      })
    })
  )
}

/** The application's `Client`, connected to the service of this test. */
const AgentClient = Layer.effect(
  Client,
  Effect.flatMap(Countersign, (countersign) => countersign.client({ preset: "runtime" }))
)

const TestLayer = Refunds.layer.pipe(Layer.provideMerge(AgentClient), Layer.provideMerge(Countersign.layer()))

layer(TestLayer, { timeout: "60 seconds" })("Refunds", (it) => {
  it.effect("refunds an order after a reviewer approves", () =>
    Effect.gen(function* () {
      const { sessions } = yield* Client
      const reviewer = yield* (yield* Countersign).client({ preset: "reviewer" })
      const { session_id } = yield* sessions.create()

      const refund = yield* Effect.forkChild((yield* Refunds).refund(session_id, "4711"))
      const [pending] = yield* reviewer.approvals.list({ query: { status: "pending" } }).pipe(
        Effect.map(({ approvals }) => approvals),
        Effect.repeat({ until: (approvals) => approvals.length > 0 })
      )
      assert.isDefined(pending)
      yield* reviewer.approvals.decide({
        params: { id: pending.approval_id },
        payload: { decision: "approve" }
      })

      assert.strictEqual(yield* Fiber.join(refund), "refunded")
    })
  )
})
