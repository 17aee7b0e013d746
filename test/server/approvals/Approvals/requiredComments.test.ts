import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { NewApprovalRule } from "../../../../src/api/ApprovalRules.ts"
import type { Decision } from "../../../../src/domain/approvals/Approval.ts"
import { type ApprovalId, StepId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { send, service } from "../../../support/service.ts"

/** An organization with an agent and two reviewers. */
const team = Effect.fnUntraced(function* (organization: string) {
  const { client, key } = yield* Countersign
  const admin = yield* client({}, organization)
  const agent = yield* client({ preset: "runtime" }, organization)
  const ada = yield* client({ preset: "reviewer", name: "Ada" }, organization)
  const ben = yield* client({ preset: "reviewer", name: "Ben" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  const setRule = (rule: Omit<NewApprovalRule, "effect">) =>
    admin.approvalRules.replace({ payload: { rules: [{ effect: "require_approval", ...rule }] } })
  const ask = (name: string) =>
    Effect.map(
      agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make(name), tool: "payments.pay", action_class: "write", arguments: 1 }
      }),
      ({ approval_id }) => approval_id ?? assert.fail("the step waits")
    )
  const decide = (id: ApprovalId, decision: Decision, comment?: string, by = ada) =>
    by.approvals.decide({
      params: { id },
      payload: comment === undefined ? { decision } : { decision, comment }
    })
  const refusal = (id: ApprovalId, decision: Decision, comment?: string, by = ada) =>
    Effect.map(Effect.flip(decide(id, decision, comment, by)), ({ _tag }) => _tag)
  const bearer = yield* key({ preset: "reviewer", name: "Eve" }, organization)
  return { ada, admin, ask, ben, bearer, decide, refusal, setRule }
})

layer(service(), { excludeTestServices: true })("Required comments", (it) => {
  it.effect("a rejection without a comment is refused with a problem that tells how to send it again", () =>
    Effect.gen(function* () {
      const { ask, bearer, decide, refusal, setRule } = yield* team("rejections")
      yield* setRule({ require_comment: "reject" })
      const id = yield* ask("one")
      const { body, status } = yield* send(`/v1/agent-approvals/${id}/decide`, {
        key: bearer,
        method: "POST",
        body: '{"decision":"reject"}'
      })
      assert.strictEqual(status, 422)
      assert.deepInclude(body, {
        code: "COMMENT_REQUIRED",
        title: "Comment required",
        detail:
          "The rule asks for a comment with a rejection. Send the decision again with a `comment`. This request changed nothing."
      })
      assert.strictEqual(yield* refusal(id, "reject", "  \n"), "COMMENT_REQUIRED")
      assert.strictEqual(yield* refusal(id, "reject", "\u200b\u2800"), "COMMENT_REQUIRED")
      const rejected = yield* decide(id, "reject", "No receipt")
      assert.deepInclude(rejected, {
        status: "rejected",
        comment: "No receipt",
        require_comment: "reject"
      })
      // The same decision again is idempotent, as without the rule.
      assert.strictEqual((yield* decide(id, "reject")).comment, "No receipt")
      assert.strictEqual((yield* decide(yield* ask("two"), "approve")).status, "approved")
    })
  )

  it.effect("each approval of a quorum needs its own comment", () =>
    Effect.gen(function* () {
      const { ask, ben, decide, refusal, setRule } = yield* team("votes")
      yield* setRule({ require_comment: "always", quorum: [{ count: 2 }] })
      const id = yield* ask("one")
      assert.strictEqual(yield* refusal(id, "approve"), "COMMENT_REQUIRED")
      assert.strictEqual((yield* decide(id, "approve", "Checked the invoice")).status, "pending")
      assert.strictEqual(yield* refusal(id, "approve", undefined, ben), "COMMENT_REQUIRED")
      const { status, votes } = yield* decide(id, "approve", "Checked the account", ben)
      assert.strictEqual(status, "approved")
      assert.deepStrictEqual(
        votes.map(({ comment }) => comment),
        ["Checked the invoice", "Checked the account"]
      )
    })
  )

  it.effect("the rule under which the approval was requested counts, not the one of today", () =>
    Effect.gen(function* () {
      const { admin, ask, decide, refusal, setRule } = yield* team("changed")
      yield* setRule({ require_comment: "always" })
      const strict = yield* ask("strict")
      yield* setRule({})
      const free = yield* ask("free")
      yield* setRule({ require_comment: "always" })
      assert.strictEqual((yield* decide(free, "approve")).status, "approved")
      yield* admin.approvalRules.replace({ payload: { rules: [] } })
      assert.strictEqual(yield* refusal(strict, "approve"), "COMMENT_REQUIRED")
      assert.strictEqual((yield* decide(strict, "approve", "Known supplier")).status, "approved")
    })
  )

  it.effect("several approvals at once: those whose rule asks for a comment stay pending without one", () =>
    Effect.gen(function* () {
      const { ada, ask, setRule } = yield* team("several")
      yield* setRule({ require_comment: "reject" })
      const strict = yield* Effect.forEach(["a", "b"], ask)
      yield* setRule({})
      const free = yield* Effect.forEach(["c", "d"], ask)
      const decideMany = (comment: string | null) =>
        Effect.map(
          ada.approvals.decideMany({
            payload: { approval_ids: [...strict, ...free], decision: "reject", comment }
          }),
          ({ results }) =>
            results.map(({ approval, problem }) => [problem?.code ?? null, approval?.status ?? null])
        )
      const needed = ["COMMENT_REQUIRED", null]
      const rejected = [null, "rejected"]
      assert.deepStrictEqual(yield* decideMany(null), [needed, needed, rejected, rejected])
      assert.deepStrictEqual(yield* decideMany("Budget is used up"), [rejected, rejected, rejected, rejected])
    })
  )

  it.effect("an approval with a grant, and a rejection with other arguments, need the comment too", () =>
    Effect.gen(function* () {
      const { ada, ask, setRule } = yield* team("extras")
      yield* setRule({ require_comment: "always" })
      const params = { id: yield* ask("one") }
      const grant = { scope: "tool" as const, reason: "The whole batch" }
      const refused = yield* Effect.flip(
        ada.approvals.decide({ params, payload: { decision: "approve", grant } })
      )
      assert.strictEqual(refused._tag, "COMMENT_REQUIRED")
      const proposed_arguments = { amount: 2 }
      const other = yield* Effect.flip(
        ada.approvals.decide({ params, payload: { decision: "reject", proposed_arguments } })
      )
      assert.strictEqual(other._tag, "COMMENT_REQUIRED")
      const approved = yield* ada.approvals.decide({
        params,
        payload: { decision: "approve", grant, comment: "Agreed with the team" }
      })
      assert.strictEqual(approved.grant?.reason, "The whole batch")
    })
  )
})
