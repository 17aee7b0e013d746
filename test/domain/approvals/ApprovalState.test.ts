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
import {
  approvalsRequired,
  countApprovals,
  DEFAULT_QUORUM,
  type Quorum
} from "../../../src/domain/approvals/Quorum.ts"
import { KeyId } from "../../../src/domain/Ids.ts"
import { CommentRequirement, type Decision } from "../../../src/domain/approvals/Approval.ts"
import { hasVisibleText } from "../../../src/domain/VisibleText.ts"
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
  self_approval: false,
  quorum: DEFAULT_QUORUM,
  require_comment: "never"
}

const decide = (
  decision: Decision,
  by: Actor = reviewer,
  admin = false,
  makers: ReadonlyArray<Actor["id"]> = [],
  groups: ReadonlyArray<string> = []
): ApprovalInput & { readonly _tag: "Decide" } => ({
  _tag: "Decide",
  decision,
  actor: by,
  makers,
  groups,
  admin,
  comment: decision === "request_changes" ? "Half of it" : null
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

describe("ApprovalState › counter-proposals", () => {
  const proposal = { arguments: '{"amount":20}', digest: "digest of 20" }
  const propose = (by: Actor = reviewer) => ({
    ...decide("reject", by, false, [asker.id], ["finance"]),
    proposal
  })

  it("a rejection with a proposal keeps it with its proposer's groups for an hour", () => {
    const { state, told } = story({ ...terms, self_approval: true }, [10, propose()])
    assert.deepStrictEqual(told, [["approval.rejected"]])
    assert.deepStrictEqual(state.proposal, {
      ...proposal,
      expires_at: at(10 + 3_600),
      groups: ["finance"],
      makers: [asker.id],
      used_by: null
    })
  })

  it("repeating a rejection keeps its proposal, and another proposal comes too late", () => {
    const { state, told } = story(
      { ...terms, self_approval: true },
      [10, propose()],
      [11, propose()],
      [12, decide("reject")],
      [13, { ...propose(), proposal: { ...proposal, digest: "digest of 30" } }],
      [14, propose(other)]
    )
    assert.deepStrictEqual(told, [["approval.rejected"], [], [], "AlreadyDecided", "AlreadyDecided"])
    assert.strictEqual(state.proposal?.digest, proposal.digest)
    const rejected = story(terms, [10, decide("reject")], [11, { ...decide("reject"), proposal }])
    assert.deepStrictEqual(rejected.told, [["approval.rejected"], "AlreadyDecided"])
    assert.isNull(rejected.state.proposal)
  })

  it("nobody proposes who may not decide, and nothing but a person's rejection makes a proposal", () => {
    const own = story(terms, [10, propose(asker)])
    assert.deepStrictEqual(own.told, ["SelfApproval"])
    for (const { state } of [
      own,
      story(terms, [10, decide("approve")]),
      story({ ...terms, escalation_seconds: null }, [100, time], [101, propose()])
    ])
      assert.isNull(state.proposal)
  })
})

describe("ApprovalState › requested changes", () => {
  it("reject the step, and repeating them is another decision than a plain rejection", () => {
    const { state, told } = story(
      terms,
      [10, { ...decide("request_changes"), comment: "less" }],
      [11, { ...decide("request_changes"), comment: "less" }],
      [12, decide("reject")],
      [13, decide("request_changes", other)]
    )
    assert.deepStrictEqual(told, [["approval.rejected"], [], "AlreadyDecided", "AlreadyDecided"])
    assert.deepInclude(state, { status: "rejected", outcome: "reject", changes_requested: true })
    const rejected = story(terms, [10, decide("reject")], [11, decide("request_changes")])
    assert.deepStrictEqual(rejected.told, [["approval.rejected"], "AlreadyDecided"])
    assert.isFalse(rejected.state.changes_requested)
  })
})

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

  const two: ApprovalTerms = { ...terms, quorum: [{ count: 2, group: null }] }
  const financeAndLegal: ApprovalTerms = {
    ...terms,
    quorum: [
      { count: 1, group: "finance" },
      { count: 1, group: "legal" }
    ]
  }
  const approve = (by: Actor, ...groups: ReadonlyArray<string>) => decide("approve", by, false, [], groups)

  it("a quorum of two is reached by two people, in any order, and names both", () => {
    const { state, told } = story(
      two,
      [10, decide("approve")],
      [11, decide("approve")],
      [12, decide("approve", other)],
      [13, decide("approve")],
      [14, decide("approve", actor("d"))]
    )
    assert.deepStrictEqual(told, [
      ["approval.vote_recorded"],
      [],
      ["approval.approved"],
      [],
      "AlreadyDecided"
    ])
    assert.deepStrictEqual(
      state.votes.map(({ voted_by }) => voted_by),
      [reviewer, other]
    )
    assert.deepStrictEqual(state.decided_by, other)
  })

  it("one rejection ends it, also by a person who approved before", () => {
    const { state, told } = story(
      two,
      [10, decide("approve")],
      [11, decide("reject")],
      [12, decide("approve")]
    )
    assert.deepStrictEqual(told, [["approval.vote_recorded"], ["approval.rejected"], "AlreadyDecided"])
    assert.strictEqual(state.outcome, "reject")
  })

  it("keys that made each other, directly or through others, count as one person", () => {
    const madeBy = (...makers: ReadonlyArray<KeyId>) => decide("approve", other, false, makers)
    assert.deepStrictEqual(story(two, [1, decide("approve")], [2, madeBy(reviewer.id)]).told[1], "SamePerson")
    assert.deepStrictEqual(
      story(two, [1, decide("approve")], [2, madeBy(actor("d").id, reviewer.id)]).told[1],
      "SamePerson"
    )
    assert.deepStrictEqual(story(two, [1, madeBy(reviewer.id)], [2, decide("approve")]).told[1], "SamePerson")
    // One admin makes the keys of many people.
    const sibling = decide("approve", reviewer, false, [actor("d").id])
    assert.deepStrictEqual(story(two, [1, madeBy(actor("d").id)], [2, sibling]).told[1], [
      "approval.approved"
    ])
  })

  it("a decision without the comment that the rule asks for changes nothing", () => {
    const commented = (decision: Decision, comment: string) => ({ ...decide(decision), comment })
    const rejecting = { ...terms, require_comment: "reject" as const }
    assert.deepStrictEqual(
      story(
        rejecting,
        [1, decide("reject")],
        [2, commented("reject", " \n\u200b")],
        [3, commented("reject", "No receipt")],
        // A repetition is answered whatever its comment is.
        [4, decide("reject")]
      ).told,
      ["CommentRequired", "CommentRequired", ["approval.rejected"], []]
    )
    assert.deepStrictEqual(story(rejecting, [1, decide("approve")]).told, [["approval.approved"]])
    const always = { ...two, require_comment: "always" as const }
    const { state, told } = story(
      always,
      [1, decide("approve")],
      [2, commented("approve", "Seen")],
      [3, decide("approve", other)],
      [4, { ...decide("approve", other), comment: "Seen too" }]
    )
    assert.deepStrictEqual(told, [
      "CommentRequired",
      ["approval.vote_recorded"],
      "CommentRequired",
      ["approval.approved"]
    ])
    assert.deepStrictEqual(
      state.votes.map(({ comment }) => comment),
      ["Seen", "Seen too"]
    )
    // Who may not decide at all hears that first.
    assert.deepStrictEqual(story(always, [1, decide("approve", asker)]).told, ["SelfApproval"])
  })

  it("time and the end of a session need no comment", () => {
    const always = { ...terms, require_comment: "always" as const, escalation_seconds: null }
    assert.deepStrictEqual(story(always, [100, time]).told, [["approval.expired"]])
    assert.deepStrictEqual(story(always, [1, { _tag: "CloseSession" }]).told, [["approval.expired"]])
  })

  it("self-approval is checked for every vote", () => {
    assert.deepStrictEqual(
      story(two, [1, decide("approve")], [2, decide("approve", asker)]).told[1],
      "SelfApproval"
    )
    const made = decide("approve", other, false, [asker.id])
    assert.deepStrictEqual(story(two, [1, decide("approve")], [2, made]).told[1], "SelfApproval")
    assert.deepStrictEqual(
      story({ ...two, self_approval: true }, [1, decide("approve", asker)], [2, made]).told,
      [["approval.vote_recorded"], "SamePerson"]
    )
  })

  it("a quorum of finance and legal needs a member of each, and only members can decide", () => {
    const finance = approve(reviewer, "finance")
    assert.deepStrictEqual(
      story(
        financeAndLegal,
        [1, approve(actor("d"), "support")],
        [2, decide("reject", actor("d"))],
        [3, finance],
        [4, approve(actor("e"), "finance")],
        [5, approve(other, "legal")]
      ).told,
      ["GroupRequired", "GroupRequired", ["approval.vote_recorded"], "GroupRequired", ["approval.approved"]]
    )
    // A member of a group that has approved can still reject.
    const veto = decide("reject", actor("e"), false, [], ["finance"])
    assert.deepStrictEqual(story(financeAndLegal, [1, finance], [2, veto]).told[1], ["approval.rejected"])
  })

  it("a member of several groups counts for one of them, whichever lets the others count", () => {
    const both = approve(reviewer, "finance", "legal")
    assert.deepStrictEqual(story(financeAndLegal, [1, both]).told, [["approval.vote_recorded"]])
    for (const group of ["finance", "legal"]) {
      assert.deepStrictEqual(story(financeAndLegal, [1, both], [2, approve(other, group)]).told[1], [
        "approval.approved"
      ])
      assert.deepStrictEqual(story(financeAndLegal, [1, approve(other, group)], [2, both]).told[1], [
        "approval.approved"
      ])
    }
  })

  it("after the escalation as many people are needed, earlier votes count, and admins count for any group", () => {
    const admin = decide("approve", actor("d"), true)
    const { state, told } = story(
      financeAndLegal,
      [1, approve(reviewer, "finance")],
      [101, approve(other, "legal")],
      [102, admin]
    )
    assert.deepStrictEqual(told, [["approval.vote_recorded"], "AdminRequired", ["approval.approved"]])
    assert.deepStrictEqual(
      state.votes.map(({ stage }) => stage),
      ["reviewer", "admin"]
    )
    assert.deepStrictEqual(story(financeAndLegal, [101, admin]).told, [
      ["approval.escalated", "approval.vote_recorded"]
    ])
  })

  it("a vote at the time of the warning is recorded with the warning", () => {
    assert.deepStrictEqual(story(two, [80, decide("approve")], [81, decide("approve", other)]).told, [
      ["approval.expiring", "approval.vote_recorded"],
      ["approval.approved"]
    ])
  })

  it("an incomplete quorum gets the timeout action", () => {
    const { state } = story({ ...two, escalation_seconds: null }, [1, decide("approve")], [100, time])
    assert.strictEqual(state.status, "expired")
    assert.strictEqual(state.outcome, "reject")
    assert.lengthOf(state.votes, 1)
  })

  const anyQuorum: fc.Arbitrary<Quorum> = fc.uniqueArray(
    fc.record({ count: fc.integer({ min: 1, max: 3 }), group: fc.constantFrom(null, "finance", "legal") }),
    { minLength: 1, maxLength: 3, selector: ({ group }) => group }
  )
  const anyTerms: fc.Arbitrary<ApprovalTerms> = fc.record({
    review_seconds: fc.integer({ min: 1, max: 60 }),
    expiring_seconds: fc.option(fc.integer({ min: 0, max: 90 }), { nil: null }),
    escalation_seconds: fc.option(fc.integer({ min: 1, max: 60 }), { nil: null }),
    timeout_action: fc.constantFrom("allow" as const, "reject" as const),
    self_approval: fc.boolean(),
    quorum: fc.oneof(fc.constant(DEFAULT_QUORUM), anyQuorum),
    require_comment: fc.constantFrom(...CommentRequirement.literals)
  })
  const anyInput: fc.Arbitrary<ApprovalInput> = fc.oneof(
    fc.constant(time),
    fc.constant<ApprovalInput>({ _tag: "CloseSession" }),
    fc.record({
      _tag: fc.constant("Decide" as const),
      decision: fc.constantFrom("approve" as const, "reject" as const, "request_changes" as const),
      actor: fc.constantFrom(asker, reviewer, other, actor("d"), actor("e")),
      makers: fc.constantFrom([], [], [], [asker.id], [other.id, asker.id]),
      groups: fc.subarray(["finance", "legal", "support"]),
      admin: fc.boolean(),
      comment: fc.constantFrom(null, " \n\u200b", "The receipt is there")
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
          if (state.votes.length > before.votes.length) assert.strictEqual(before.status, "pending")
          else assert.deepStrictEqual(state.votes, before.votes)
          if (state.changes_requested) assert.strictEqual(state.status, "rejected")
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
  const required = approvalsRequired(state.quorum)
  assert.strictEqual(state.status === "approved", state.votes.length === required)
  // Every vote counts, for another of the required approvals.
  assert.strictEqual(countApprovals(state.quorum, state.votes), state.votes.length)
  assert.strictEqual(new Set(state.votes.map(({ voted_by }) => voted_by.id)).size, state.votes.length)
  const rejects = state.status === "rejected"
  if (state.require_comment === "always" && state.decided_by !== null) assert.isTrue(isCommented(state))
  if (state.require_comment === "reject" && rejects) assert.isTrue(isCommented(state))
  if (state.require_comment === "always") assert.isTrue(state.votes.every(isCommented))
  for (const vote of state.votes) {
    for (const other of state.votes) if (other !== vote) assert.notInclude(vote.makers, other.voted_by.id)
    if (!state.self_approval) assert.notInclude([vote.voted_by.id, ...vote.makers], state.requested_by)
  }
}

const isCommented = ({ comment }: { readonly comment: string | null }) => hasVisibleText(comment ?? "")
