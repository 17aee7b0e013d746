import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import fc from "fast-check"
import {
  type ApprovalInput,
  type ApprovalTransition,
  type ApprovalState,
  type ApprovalTerms,
  nextTransitionAt,
  requestApproval,
  transition
} from "../../../src/domain/approvals/ApprovalState.ts"
import { KeyId } from "../../../src/domain/Ids.ts"
import type { Actor } from "../../../src/domain/identity/Principal.ts"

const actor = (digit: string): Actor => ({
  id: KeyId.make(`key_${digit.repeat(32)}`),
  name: `actor ${digit}`
})
const asker = actor("a")
const reviewer = actor("b")
const other = actor("c")

const start = DateTime.makeUnsafe("2026-11-21T00:00:00.000Z")
const at = (seconds: number) => DateTime.add(start, { seconds })

const terms: ApprovalTerms = {
  review_seconds: 100,
  expiring_seconds: 25,
  escalation_seconds: 50,
  timeout_action: "reject",
  self_approval: false
}

const decide = (
  decision: "approve" | "reject",
  by: Actor = reviewer,
  admin = false,
  makers: ReadonlyArray<Actor["id"]> = []
): ApprovalInput & { readonly _tag: "Decide" } => ({
  _tag: "Decide",
  decision,
  actor: by,
  makers,
  admin,
  comment: null
})
const time: ApprovalInput = { _tag: "Time" }

const events = (moves: ReadonlyArray<ApprovalTransition>) => moves.map(({ event }) => event)

/** Applies inputs, each at its second, and returns the events of each. */
const story = (
  from: ApprovalTerms,
  ...inputs: ReadonlyArray<readonly [seconds: number, input: ApprovalInput]>
) => {
  let state = requestApproval(from, asker.id, start)
  const told = inputs.map(([seconds, input]) => {
    const next = transition(state, input, at(seconds))
    state = next.state
    return next.refusal ?? events(next.transitions)
  })
  return { state, told }
}

describe("ApprovalState", () => {
  it("an approval warns once per window, escalates once, and expires with its timeout action", () => {
    const { state, told } = story(
      terms,
      [10, time],
      [75, time],
      [80, time],
      [100, time],
      [110, time],
      [125, time],
      [130, time],
      [150, time],
      [900, time]
    )
    assert.deepStrictEqual(told, [
      [],
      ["approval.expiring"],
      [],
      ["approval.escalated"],
      [],
      ["approval.expiring"],
      [],
      ["approval.expired"],
      []
    ])
    assert.strictEqual(state.outcome, "reject")
    assert.strictEqual(state.decision_source, "timeout")
    assert.isNull(state.decided_by)
  })

  it("by default the warning comes a quarter of the window before its end", () => {
    const { told } = story(
      { ...terms, expiring_seconds: null },
      [74, time],
      [75, time],
      [100, time],
      [137, time],
      [138, time]
    )
    assert.deepStrictEqual(told, [
      [],
      ["approval.expiring"],
      ["approval.escalated"],
      [],
      ["approval.expiring"]
    ])
  })

  it("the timeout action applies without naming an actor", () => {
    const { state } = story({ ...terms, escalation_seconds: null, timeout_action: "allow" }, [100, time])
    assert.strictEqual(state.status, "expired")
    assert.strictEqual(state.outcome, "allow")
    assert.isNull(state.decided_by)
  })

  it("the first decision closes the approval, and repeating one's own decision changes nothing", () => {
    const { state, told } = story(
      terms,
      [10, decide("approve")],
      [11, decide("approve")],
      [12, decide("reject")],
      [13, decide("approve", other)]
    )
    assert.deepStrictEqual(told, [["approval.approved"], [], "AlreadyDecided", "AlreadyDecided"])
    assert.deepStrictEqual(state.decided_by, reviewer)
    assert.deepStrictEqual(state.decided_at, at(10))
  })

  it("a decision after the deadline is refused, even if the scheduler is late", () => {
    const { state, told } = story({ ...terms, escalation_seconds: null }, [100, decide("approve")])
    assert.deepStrictEqual(told, ["Expired"])
    assert.strictEqual(state.status, "expired")
  })

  it("after the reviewers' window only an admin can decide, even if the scheduler is late", () => {
    const late = transition(requestApproval(terms, asker.id, start), decide("approve"), at(101))
    assert.strictEqual(late.refusal, "AdminRequired")
    assert.deepStrictEqual(events(late.transitions), ["approval.escalated"])
    const admin = transition(
      requestApproval(terms, asker.id, start),
      decide("approve", reviewer, true),
      at(101)
    )
    assert.deepStrictEqual(events(admin.transitions), ["approval.escalated", "approval.approved"])
    assert.strictEqual(admin.transitions[0]?.state.status, "pending")
  })

  it("the key that submitted the step can decide only if the rule allows self-approval", () => {
    assert.deepStrictEqual(story(terms, [1, decide("approve", asker, true)]).told, ["SelfApproval"])
    assert.deepStrictEqual(story({ ...terms, self_approval: true }, [1, decide("approve", asker)]).told, [
      ["approval.approved"]
    ])
  })

  it("a key that the submitting key created, itself or through others, decides only if the rule allows self-approval", () => {
    const madeBy = (...makers: ReadonlyArray<KeyId>) => decide("approve", reviewer, true, makers)
    assert.deepStrictEqual(story(terms, [1, madeBy(other.id, asker.id)]).told, ["SelfApproval"])
    assert.deepStrictEqual(story(terms, [1, madeBy(other.id)]).told, [["approval.approved"]])
    assert.deepStrictEqual(story({ ...terms, self_approval: true }, [1, madeBy(asker.id)]).told, [
      ["approval.approved"]
    ])
  })

  it("closing the session expires the approval with outcome reject and no actor", () => {
    const { state, told } = story(terms, [80, { _tag: "CloseSession" }], [81, { _tag: "CloseSession" }])
    assert.deepStrictEqual(told, [["approval.expired"], []])
    assert.strictEqual(state.outcome, "reject")
    assert.strictEqual(state.decision_source, "session_closed")
    const lenient = { ...terms, timeout_action: "allow" as const }
    assert.strictEqual(story(lenient, [80, { _tag: "CloseSession" }]).state.outcome, "reject")
  })

  it("a window that passed completely during an outage is skipped without events", () => {
    const { state, told } = story(terms, [150, time])
    assert.deepStrictEqual(told, [["approval.expired"]])
    assert.deepStrictEqual(state.expires_at, at(150))
  })

  const anyTerms: fc.Arbitrary<ApprovalTerms> = fc.record({
    review_seconds: fc.integer({ min: 1, max: 60 }),
    expiring_seconds: fc.option(fc.integer({ min: 0, max: 90 }), { nil: null }),
    escalation_seconds: fc.option(fc.integer({ min: 1, max: 60 }), { nil: null }),
    timeout_action: fc.constantFrom("allow" as const, "reject" as const),
    self_approval: fc.boolean()
  })
  const anyInput: fc.Arbitrary<ApprovalInput> = fc.oneof(
    fc.constant(time),
    fc.constant<ApprovalInput>({ _tag: "CloseSession" }),
    fc.record({
      _tag: fc.constant("Decide" as const),
      decision: fc.constantFrom("approve" as const, "reject" as const),
      actor: fc.constantFrom(asker, reviewer, other),
      makers: fc.constantFrom([], [asker.id], [other.id, asker.id]),
      admin: fc.boolean(),
      comment: fc.constant(null)
    })
  )

  it("no sequence of inputs reaches an illegal state, repeats an event, or lets two decisions win", () => {
    const anyStory = fc.array(fc.tuple(fc.integer({ min: 0, max: 40 }), anyInput), { maxLength: 30 })
    fc.assert(
      fc.property(anyTerms, anyStory, (from, inputs) => {
        let state = requestApproval(from, asker.id, start)
        let second = 0
        const told: Array<string> = []
        for (const [pause, input] of inputs) {
          second += pause
          const before = state
          const next = transition(state, input, at(second))
          state = next.state
          told.push(...events(next.transitions))

          if (before.status !== "pending") assert.deepStrictEqual(state, before)
          if (state.status === "approved" && before.status === "pending") {
            assert.isTrue(
              DateTime.isLessThan(at(second), before.escalation_deadline_at ?? before.review_deadline_at)
            )
          }
          assertLegal(state)
        }
        const count = (event: string) => told.filter((one) => one === event).length
        assert.isAtMost(
          count("approval.approved") + count("approval.rejected") + count("approval.expired"),
          1
        )
        assert.isAtMost(count("approval.escalated"), 1)
        assert.isAtMost(count("approval.expiring"), from.escalation_seconds === null ? 1 : 2)
      }),
      { numRuns: 2000 }
    )
  })

  it("an approval always has a transition at its due time, and none once it is closed", () => {
    fc.assert(
      fc.property(anyTerms, (from) => {
        let state = requestApproval(from, asker.id, start)
        for (
          let due = nextTransitionAt(state), steps = 0;
          due !== null;
          due = nextTransitionAt(state), steps++
        ) {
          assert.isBelow(steps, 5)
          const next = transition(state, time, due)
          assert.lengthOf(next.transitions, 1)
          state = next.state
        }
        assert.strictEqual(state.status, "expired")
      })
    )
  })
})

const assertLegal = (state: ApprovalState) => {
  const open = state.status === "pending"
  assert.strictEqual(state.outcome === null, open)
  assert.strictEqual(state.decision_source === null, open)
  assert.strictEqual(state.decided_at === null, open)
  assert.strictEqual(state.decided_by !== null, state.decision_source === "human")
  assert.strictEqual(
    state.status === "approved",
    state.outcome === "allow" && state.decision_source === "human"
  )
  assert.strictEqual(state.status === "expired", !open && state.decision_source !== "human")
  if (state.stage === "admin") assert.isNotNull(state.escalated_at)
}
