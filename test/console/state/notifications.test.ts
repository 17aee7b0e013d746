import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { InboxApproval } from "../../../src/api/Console.ts"
import { makeNotifier } from "../../../src/console/state/notifications/Notifier.ts"
import { pendingApproval } from "../../support/approvals.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:33:05.123Z")

const approval = (
  number: number,
  { age = 0, ...changes }: Partial<InboxApproval> & { readonly age?: number } = {}
): InboxApproval => ({
  ...Schema.decodeSync(Schema.toCodecJson(InboxApproval))({
    ...pendingApproval,
    approval_id: `apr_${String(number).padStart(32, "0")}`,
    session_id: `ses_${"a".repeat(32)}`,
    step_id: `step ${number}`,
    requested_at: DateTime.formatIso(DateTime.subtract(at, { seconds: age })),
    review_deadline_at: DateTime.formatIso(DateTime.add(at, { hours: 1 })),
    expires_at: DateTime.formatIso(DateTime.add(at, { hours: 1 })),
    line: {
      rule_summary: `Refund ${number} EUR`,
      agent_summary: "SECRET claim",
      arguments: "iban SECRET",
      requested_by: { id: `key_${"b".repeat(32)}`, name: "agent" },
      self_approval: false,
      about: "SUP-9001",
      newest_question: 0,
      newest_answer: 0
    }
  }),
  ...changes
})

/** A notifier of a browser, with what it shows now. */
const simulated = Effect.gen(function* () {
  const shown = new Map<string, string>()
  const state = { isEnabled: true, canApprove: true, isVisible: false, opened: 0 }
  const notifier = yield* makeNotifier({
    isEnabled: () => state.isEnabled,
    canApprove: () => state.canApprove,
    hasVisibleTab: Effect.sync(() => state.isVisible),
    now: () => DateTime.toEpochMillis(at),
    show: ({ body, path, tag, title }) => {
      state.opened++
      shown.set(tag, `${title} | ${body} | ${path.slice(0, 15)}`)
      return () => void shown.delete(tag)
    }
  })
  return { ...notifier, shown: () => [...shown.values()], state }
})

const passSecond = TestClock.adjust("1 second")

describe("Notifier", () => {
  it.effect("a new approval notifies once, with the tool and the rule's summary alone", () =>
    Effect.gen(function* () {
      const { approval: changed, shown, state } = yield* simulated
      changed(approval(1))
      yield* passSecond
      assert.deepStrictEqual(shown(), ["Approval: payments.refund | Refund 1 EUR | /approvals/apr_"])
      changed(approval(1, { approvals_given: 1 }))
      yield* passSecond
      assert.strictEqual(state.opened, 1)
      const { line: _line, ...withoutSentence } = approval(2)
      changed(withoutSentence)
      yield* passSecond
      assert.include(shown().join(), "An agent is waiting for approval to use this tool.")
    })
  )

  it.effect("several at once are one notification, and so are more than three", () =>
    Effect.gen(function* () {
      const { approval: changed, shown } = yield* simulated
      for (let number = 1; number <= 5; number++) changed(approval(number))
      yield* passSecond
      assert.deepStrictEqual(shown(), [
        "5 approvals are waiting | Refund 1 EUR\nRefund 2 EUR\nRefund 3 EUR\nand 2 more | /approvals"
      ])
      const other = yield* simulated
      for (let number = 1; number <= 4; number++) {
        other.approval(approval(number))
        yield* passSecond
      }
      assert.deepStrictEqual(
        other.shown().map((text) => text.split(" | ")[0]),
        ["4 approvals are waiting"]
      )
    })
  )

  it.effect("a notification closes when its approvals are decided, and when a tab is shown", () =>
    Effect.gen(function* () {
      const { approval: changed, closeAll, shown } = yield* simulated
      changed(approval(1))
      yield* passSecond
      changed(approval(1, { status: "approved" }))
      assert.deepStrictEqual(shown(), [])
      changed(approval(2))
      changed(approval(3))
      yield* passSecond
      changed(approval(2, { status: "rejected" }))
      assert.strictEqual(shown().length, 1)
      changed(approval(3, { status: "expired" }))
      assert.deepStrictEqual(shown(), [])
      // Decided within the second in which approvals are gathered.
      changed(approval(4))
      changed(approval(4, { status: "approved" }))
      yield* passSecond
      assert.deepStrictEqual(shown(), [])
      changed(approval(5))
      yield* passSecond
      closeAll()
      assert.deepStrictEqual(shown(), [])
    })
  )

  it.effect("nothing is shown while a tab is visible, turned off, of others, or of long ago", () =>
    Effect.gen(function* () {
      const { approval: changed, state } = yield* simulated
      state.isVisible = true
      changed(approval(1))
      yield* passSecond
      state.isVisible = false
      state.isEnabled = false
      changed(approval(2))
      state.isEnabled = true
      state.canApprove = false
      changed(approval(3))
      state.canApprove = true
      changed(approval(4, { age: 600 }))
      yield* passSecond
      assert.strictEqual(state.opened, 0)
    })
  )

  it.effect("an escalated approval notifies again", () =>
    Effect.gen(function* () {
      const { approval: changed, state } = yield* simulated
      changed(approval(1, { age: 3_600 }))
      changed(approval(1, { stage: "admin", escalated_at: at, age: 3_600 }))
      yield* passSecond
      assert.strictEqual(state.opened, 1)
    })
  )
})
