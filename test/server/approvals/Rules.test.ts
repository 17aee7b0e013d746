import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalRules } from "../../../src/api/ApprovalRules.ts"
import { StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("an organization's rules", (it) => {
  it.effect("are none at first, and what is left unsaid is filled in when they are put", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "filled in")
      assert.deepStrictEqual(yield* admin.approval_rules.list({}), { rules: [], revision: 0 })
      const put = yield* admin.approval_rules.replace({
        payload: { rules: [{ effect: "require_approval" }] }
      })
      const [rule] = put.rules
      if (rule === undefined) return assert.fail("there is one")
      const { id, ...rest } = rule
      assert.match(id, /^rul_[0-9a-f]{32}$/)
      assert.deepStrictEqual(rest, {
        tool: "*",
        action_class: "*",
        task_id: null,
        effect: "require_approval",
        review_seconds: 3600,
        expiring_seconds: null,
        escalation_seconds: null,
        timeout_action: "reject",
        self_approval: false,
        reason: ""
      })
      assert.deepStrictEqual(yield* admin.approval_rules.list({}), put)
    })
  )

  it.effect("are replaced by one of those who read the same revision", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "race")
      const { revision } = yield* admin.approval_rules.replace({ payload: { rules: [] } })
      const results = yield* Effect.all(
        Array.from({ length: 8 }, (_, index) =>
          Effect.result(
            admin.approval_rules.replace({
              payload: { revision, rules: [{ effect: "reject", reason: `number ${index}` }] }
            })
          )
        ),
        { concurrency: "unbounded" }
      )
      const [won, ...others] = results.filter(Result.isSuccess)
      assert.lengthOf(others, 0)
      assert.deepStrictEqual(yield* admin.approval_rules.list({}), won?.success)
      for (const refused of results.filter(Result.isFailure)) {
        assert.strictEqual(refused.failure._tag, "RULES_CHANGED")
        if (refused.failure._tag === "RULES_CHANGED") {
          assert.strictEqual(refused.failure.current_revision, revision + 1)
        }
      }
    })
  )

  it.effect("decide by the first that matches, for their own organization alone", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "ours")
      yield* admin.approval_rules.replace({
        payload: {
          rules: [
            { tool: "payments.*", action_class: "read", effect: "allow" },
            { tool: "payments.*", effect: "reject", reason: "No payments" },
            { effect: "allow" }
          ]
        }
      })
      const decisions = (client: typeof admin) =>
        Effect.gen(function* () {
          const { session_id } = yield* client.sessions.create({})
          const asked = [
            ["payments.list", "read"],
            ["payments.refund", "write"],
            ["mail.send", "write"]
          ] as const
          return yield* Effect.forEach(asked, ([tool, action_class]) =>
            Effect.map(
              client.sessions.step({
                params: { id: session_id },
                payload: { step_id: StepId.make(tool), tool, action_class }
              }),
              ({ decision }) => decision
            )
          )
        })
      assert.deepStrictEqual(yield* decisions(admin), ["allow", "reject", "allow"])
      const other = yield* countersign.client({}, "theirs")
      assert.deepStrictEqual(yield* decisions(other), ["pending", "pending", "pending"])
    })
  )

  it.effect(
    "hold at once, whichever process replaced them; they are read anew only when their revision changed",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const admin = yield* countersign.client({}, "at once")
        const { session_id } = yield* admin.sessions.create({})
        const decision = Effect.map(
          admin.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make("refund-1"), tool: "payments.refund", action_class: "write" }
          }),
          (step) => step.decision
        )
        // As another process replaces them: this one learns of it from the store alone.
        const sql = yield* SqlClient.SqlClient
        const write = (revision: number, { rules: [rule] }: ApprovalRules, effect: string) =>
          sql`
          UPDATE approval_rules
          SET revision = ${revision}, rules = ${JSON.stringify([{ ...rule, effect }])}
          WHERE rules::jsonb @> ${JSON.stringify([{ id: rule?.id }])}
        `
        const put = yield* admin.approval_rules.replace({ payload: { rules: [{ effect: "allow" }] } })
        assert.strictEqual(yield* decision, "allow")
        yield* write(put.revision + 1, put, "reject")
        assert.strictEqual(yield* decision, "reject")
        assert.strictEqual((yield* admin.approval_rules.list({})).revision, put.revision + 1)
        yield* write(put.revision + 2, put, "allow")
        assert.strictEqual(yield* decision, "allow")
        yield* write(put.revision + 2, put, "reject")
        assert.strictEqual(yield* decision, "allow")
      })
  )

  it.effect("name the rule and the member that cannot be", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "faults")
      const id = `rul_${"0".repeat(32)}`
      for (const [rules, pointer] of [
        [[{ effect: "ask" }], "#/rules/0/effect"],
        [[{ effect: "allow" }, { effect: "allow", review_seconds: 0 }], "#/rules/1/review_seconds"],
        [[{ effect: "allow", tool: "" }], "#/rules/0/tool"],
        [[{ effect: "allow", escalation_seconds: 2_592_001 }], "#/rules/0/escalation_seconds"],
        [
          [
            { id, effect: "allow" },
            { id, effect: "reject" }
          ],
          "#/rules/1/id"
        ]
      ] as const) {
        const answer = yield* send("/v1/approval-rules", {
          method: "PUT",
          key,
          body: JSON.stringify({ rules })
        })
        assert.strictEqual(answer.status, 400, pointer)
        assert.strictEqual(answer.errors[0]?.pointer, pointer)
      }
    })
  )
})
