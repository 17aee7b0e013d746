/**
 * Moves the service's time: under Effect's `TestClock` it stands still until the test moves it, and then approvals expire and retries become
 * due at once. `@effect/vitest` provides a `TestClock` to every layer of tests, unless told otherwise.
 */
import { assert, layer } from "@effect/vitest"
import { StepId } from "countersign/api"
import { Countersign } from "countersign/testing"
import { DateTime, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"

layer(Countersign.layer(), { timeout: "60 seconds" })("A test clock", (it) => {
  it.effect("expires an approval that nobody decides", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 0, 1))
      const countersign = yield* Countersign
      const agent = yield* countersign.client({ preset: "runtime" })
      const { session_id } = yield* agent.sessions.create()
      const refund = yield* Effect.forkChild(
        agent.govern(session_id, {
          step_id: StepId.make("refund-1"),
          tool: "payments.refund",
          action_class: "write"
        })
      )
      const [pending] = yield* agent.approvals.list({ query: { status: "pending" } }).pipe(
        Effect.map(({ approvals }) => approvals),
        Effect.repeat({ until: (approvals) => approvals.length > 0 })
      )
      assert.isDefined(pending)
      assert.strictEqual(DateTime.formatIso(pending.requested_at), "2026-01-01T00:00:00.000Z")
      assert.strictEqual(DateTime.formatIso(pending.expires_at), "2026-01-01T01:00:00.000Z")

      yield* TestClock.adjust("1 hour")
      const { approval, decision } = yield* Fiber.join(refund)
      assert.strictEqual(decision, "reject")
      assert.strictEqual(approval?.decision_source, "timeout")
    })
  )
})
