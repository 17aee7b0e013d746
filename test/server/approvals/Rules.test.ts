import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalRules } from "../../../src/api/ApprovalRules.ts"
import { StepId, TaskId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("Rules", (it) => {
  it.effect("an organization starts without rules, and omitted members get their defaults", () =>
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

  it.effect("of concurrent replacements of one revision exactly one is accepted", () =>
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

  it.effect("the first matching rule decides, for its own organization alone", () =>
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
    "replaced rules apply immediately on every replica, and are read again only if their revision changed",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const admin = yield* countersign.client({}, "replaced elsewhere")
        const { session_id } = yield* admin.sessions.create({})
        const decision = Effect.map(
          admin.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make("refund-1"), tool: "payments.refund", action_class: "write" }
          }),
          (step) => step.decision
        )
        // Replaced as by another replica: this one sees the change in the database alone.
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

  it.effect(
    "a rule for a task that does not exist is refused, and so is one for another organization's task",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { tasks } = yield* countersign.client({}, "task owner")
        const { id: foreign } = yield* tasks.create({ payload: sortingTask })
        const { approval_rules } = yield* countersign.client({}, "task rules")
        for (const task_id of [foreign, TaskId.make(`tsk_${"0".repeat(32)}`)]) {
          const refused = yield* Effect.flip(
            approval_rules.replace({
              payload: { rules: [{ effect: "allow" }, { task_id, effect: "reject" }] }
            })
          )
          assert.deepStrictEqual(pointersOf(refused), ["#/rules/1/task_id"])
        }
        assert.deepStrictEqual((yield* approval_rules.list({})).rules, [])
      })
  )

  it.effect("an invalid list is refused with pointers to the rule and its member", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "faults")
      const id = `rul_${"0".repeat(32)}`
      for (const [rules, pointer] of [
        [[{ effect: "ask" }], "#/rules/0/effect"],
        [[{ effect: "allow" }, { effect: "allow", review_seconds: 0 }], "#/rules/1/review_seconds"],
        [[{ effect: "allow", tool: "" }], "#/rules/0/tool"],
        [[{ effect: "allow", escalation_seconds: 2_592_001 }], "#/rules/0/escalation_seconds"],
        [
          [{ effect: "require_approval", review_seconds: 60, expiring_seconds: 60 }],
          "#/rules/0/expiring_seconds"
        ],
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
