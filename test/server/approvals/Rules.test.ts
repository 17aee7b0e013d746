import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Result, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalRules } from "../../../src/api/ApprovalRules.ts"
import { StepId, TaskId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("Rules", (it) => {
  it.effect("an organization starts without rules, and omitted members get their defaults", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "filled in")
      assert.deepStrictEqual(yield* admin.approvalRules.get({}), { rules: [], revision: 0, warnings: [] })
      const put = yield* admin.approvalRules.replace({
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
        when: [],
        budgets: [],
        effect: "require_approval",
        review_seconds: 3600,
        expiring_seconds: null,
        escalation_seconds: null,
        timeout_action: "reject",
        self_approval: false,
        quorum: [{ count: 1, group: null }],
        require_comment: "never",
        retry_unknown: false,
        reviewer: null,
        reason: "",
        summary_template: null
      })
      assert.deepStrictEqual(yield* admin.approvalRules.get({}), put)
    })
  )

  it.effect("of concurrent replacements of one revision exactly one is accepted", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "race")
      const { revision } = yield* admin.approvalRules.replace({ payload: { rules: [] } })
      const results = yield* Effect.all(
        Array.from({ length: 8 }, (_, index) =>
          Effect.result(
            admin.approvalRules.replace({
              payload: { revision, rules: [{ effect: "reject", reason: `number ${index}` }] }
            })
          )
        ),
        { concurrency: "unbounded" }
      )
      const [won, ...others] = results.filter(Result.isSuccess)
      assert.lengthOf(others, 0)
      assert.deepStrictEqual(yield* admin.approvalRules.get({}), won?.success)
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
      yield* admin.approvalRules.replace({
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
        const put = yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
        assert.strictEqual(yield* decision, "allow")
        yield* write(put.revision + 1, put, "reject")
        assert.strictEqual(yield* decision, "reject")
        assert.strictEqual((yield* admin.approvalRules.get({})).revision, put.revision + 1)
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
        const { approvalRules } = yield* countersign.client({}, "task rules")
        for (const task_id of [foreign, TaskId.make(`tsk_${"0".repeat(32)}`)]) {
          const refused = yield* Effect.flip(
            approvalRules.replace({
              payload: { rules: [{ effect: "allow" }, { task_id, effect: "reject" }] }
            })
          )
          assert.deepStrictEqual(pointersOf(refused), ["#/rules/1/task_id"])
        }
        assert.deepStrictEqual((yield* approvalRules.get({})).rules, [])
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

  it.effect("conditions see the arguments when a step is requested and resumed", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "conditions")
      const replace = (amount: number) =>
        admin.approvalRules.replace({
          payload: {
            rules: [
              { effect: "reject", when: [{ pointer: "/amount", op: "greater_than", value: amount }] },
              { effect: "allow", when: [{ pointer: "/amount", op: "at_most", value: 100 }] }
            ]
          }
        })
      yield* replace(1_000)
      const { session_id } = yield* admin.sessions.create({})
      const step = (step_id: string, stepArguments: Schema.Json | undefined) =>
        admin.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make(step_id),
            tool: "payments.refund",
            action_class: "write",
            ...(stepArguments === undefined ? {} : { arguments: stepArguments })
          }
        })
      const large = "x".repeat(100_000)
      const asked = [
        ["small", { amount: 100 }, "allow"],
        ["medium", { amount: 101 }, "pending"],
        ["large", { amount: 1_001 }, "reject"],
        ["mistyped", { amount: "1" }, "pending"],
        ["without", undefined, "pending"],
        // Too large for a shared statement.
        ["in a transaction", { amount: 1_001, note: large }, "reject"],
        ["allowed in a transaction", { amount: 1, note: large }, "allow"]
      ] as const
      for (const [step_id, stepArguments, expected] of asked) {
        assert.strictEqual((yield* step(step_id, stepArguments)).decision, expected, step_id)
      }
      const medium = yield* step("medium", { amount: 101 })
      if (medium.approval_id === null) return assert.fail("it waits for a person")
      const reviewer = yield* (yield* Countersign).client({ preset: "reviewer" }, "conditions")
      yield* reviewer.approvals.decide({
        params: { id: medium.approval_id },
        payload: { decision: "approve" }
      })
      assert.strictEqual((yield* step("medium", { amount: 101 })).decision, "allow")
      // Rules that now reject the arguments override the earlier decision.
      yield* replace(50)
      const resumed = yield* step("medium", { amount: 101 })
      assert.strictEqual(resumed.decision, "reject")
      assert.strictEqual(resumed.reason, "A rule rejects this step (rule 1: /amount greater_than)")
      assert.strictEqual((yield* step("in a transaction", { amount: 1_001, note: large })).decision, "reject")
    })
  )

  it.effect("the outcome of a step that has become allowed is judged by its stored arguments", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "outcome")
      const reviewer = yield* countersign.client({ preset: "reviewer" }, "outcome")
      const when = [{ pointer: "/amount", op: "greater_than" as const, value: 100 }]
      const { session_id } = yield* admin.sessions.create({})
      const pending = (step_id: string, amount: number) =>
        admin.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make(step_id),
            tool: "pay",
            action_class: "write",
            arguments: { amount }
          }
        })
      const complete = (step_id: string) =>
        Effect.result(
          admin.sessions.reportOutcome({
            params: { id: session_id, step_id: StepId.make(step_id) },
            payload: { status: "succeeded" }
          })
        )
      for (const [step_id, amount] of [
        ["small", 100],
        ["large", 101]
      ] as const) {
        const { approval_id } = yield* pending(step_id, amount)
        if (approval_id === null) return assert.fail("it waits for a person")
        yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      }
      yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "reject", when }] } })
      assert.isTrue(Result.isSuccess(yield* complete("small")))
      const refused = yield* complete("large")
      assert.strictEqual(Result.isFailure(refused) ? refused.failure._tag : "allowed", "STEP_NOT_ALLOWED")
    })
  )

  it.effect("an invalid condition is refused with a pointer to the fault, and nothing is stored", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "condition faults")
      const exists = { pointer: "/a", op: "exists" }
      for (const [when, pointer] of [
        [[exists, { pointer: "amount", op: "exists" }], "#/rules/1/when/1/pointer"],
        [[exists, { pointer: "/a", op: "at_most", value: "5" }], "#/rules/1/when/1/value"],
        [[exists, { pointer: "/a", op: "at_most" }], "#/rules/1/when/1/value"],
        [[exists, { pointer: "/a", op: "matches", value: "(?=a)" }], "#/rules/1/when/1/value"],
        [[exists, { pointer: "/a", op: "matches", value: "(" }], "#/rules/1/when/1/value"],
        [[exists, { pointer: "/a", op: "matches", value: "a{1000}" }], "#/rules/1/when/1/value"],
        [
          [{ pointer: "/a", op: "every", value: [exists, { pointer: "", op: "matches", value: "(" }] }],
          "#/rules/1/when/0/value/1/value"
        ],
        [[exists, { pointer: "/a", op: "like", value: "x" }], "#/rules/1/when/1"],
        [[exists, 7], "#/rules/1/when/1"]
      ] as const) {
        const answer = yield* send("/v1/approval-rules", {
          method: "PUT",
          key,
          body: JSON.stringify({ rules: [{ effect: "reject" }, { effect: "allow", when }] })
        })
        assert.strictEqual(answer.status, 400, JSON.stringify(when))
        assert.deepStrictEqual(
          answer.errors.map((error) => error.pointer),
          [pointer]
        )
      }
      const { approvalRules } = yield* countersign.client({}, "condition faults")
      assert.deepStrictEqual(yield* approvalRules.get({}), { rules: [], revision: 0, warnings: [] })
    })
  )

  it.effect("a member that rules do not have is refused, wherever rules are sent", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const admin = yield* key({}, "misspelled")
      const condition = { pointer: "/amount", op: "at_most", value: 100 }
      const misspelled = { rules: [{ tool: "refund", effect: "allow", wen: [condition] }] }
      const places = [
        { path: "/v1/approval-rules", method: "PUT" },
        { path: "/v1/approval-rules/shadow", method: "PUT" },
        { path: "/v1/approval-rules/test", method: "POST" }
      ]
      for (const { method, path } of places) {
        const refused = yield* send(path, { method, key: admin, body: JSON.stringify(misspelled) })
        assert.strictEqual(refused.status, 400, path)
        assert.deepStrictEqual(
          refused.errors.map(({ pointer }) => pointer),
          ["#/rules/0/wen"]
        )
      }
      const negated = {
        rules: [{ effect: "allow", when: [{ pointer: "/amount", op: "exists", value: false }] }]
      }
      const body = JSON.stringify(negated)
      const refused = yield* send("/v1/approval-rules", { method: "PUT", key: admin, body })
      assert.strictEqual(refused.status, 400)
      assert.deepStrictEqual((yield* send("/v1/approval-rules", { key: admin })).body["rules"], [])
    })
  )

  it.effect("a list beyond a limit is refused with RULES_TOO_LARGE", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "limits")
      const when = (length: number) => Array.from({ length }, () => ({ pointer: "/a", op: "exists" }))
      const every = { pointer: "", op: "every", value: when(10) }
      const patterns = (offset: number) =>
        Array.from({ length: 20 }, (_, index) => ({
          pointer: "/a",
          op: "matches",
          value: `x${offset + index}`
        }))
      for (const [rules, pointer] of [
        [Array.from({ length: 1_001 }, () => ({ effect: "allow" })), "#/rules"],
        [[{ effect: "allow", when: when(21) }], "#/rules/0/when"],
        [
          Array.from({ length: 46 }, () => ({
            effect: "allow",
            when: Array.from({ length: 20 }, () => every)
          })),
          "#/rules"
        ],
        [
          Array.from({ length: 26 }, (_, index) => ({ effect: "allow", when: patterns(20 * index) })),
          "#/rules/25/when/0/value"
        ],
        [
          Array.from({ length: 10 }, (_, index) => ({
            effect: "allow",
            when: Array.from({ length: 10 }, (_unused, at) => ({
              pointer: "/a",
              op: "matches",
              value: `x${10 * index + at}y{220}`
            }))
          })),
          "#/rules/8/when/8/value"
        ]
      ] as const) {
        const answer = yield* send("/v1/approval-rules", {
          method: "PUT",
          key,
          body: JSON.stringify({ rules })
        })
        assert.strictEqual(answer.status, 422)
        assert.deepInclude(answer.body, { code: "RULES_TOO_LARGE" })
        assert.strictEqual(answer.errors[0]?.pointer, pointer)
      }
      const { approvalRules } = yield* countersign.client({}, "limits")
      assert.deepStrictEqual(yield* approvalRules.get({}), { rules: [], revision: 0, warnings: [] })
    })
  )

  it.effect("a list whose question about one step would need too many approvals is refused", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "questions")
      const groups = ["ops", "legal", "finance", "risk", "tax", "board"] as const
      yield* countersign.key({ preset: "reviewer", groups: [...groups] }, "questions")
      const rulesFor = (tools: ReadonlyArray<string>) =>
        groups.map((group, index) => ({
          tool: tools[index % tools.length] ?? "*",
          effect: "require_approval",
          quorum: [{ group }],
          when: [{ pointer: "/amount", op: "greater_than", value: index }]
        }))
      const put = (rules: ReadonlyArray<Schema.Json>) =>
        send("/v1/approval-rules", { method: "PUT", key, body: JSON.stringify({ rules }) })
      for (const [rules, pointer] of [
        [rulesFor(["pay.*"]), "#/rules/0/when"],
        [rulesFor(["*.refund", "pay.*"]), "#/rules/0/when"],
        [[...rulesFor(["mail"]).slice(0, 1), ...rulesFor(["pay*", "pay"])], "#/rules/1/when"]
      ] as const) {
        const answer = yield* put(rules)
        assert.deepInclude(answer.body, { code: "RULES_TOO_LARGE" })
        assert.strictEqual(answer.errors[0]?.pointer, pointer)
      }
      const decides = { effect: "require_approval", quorum: [{ group: "ops" }] }
      for (const rules of [
        rulesFor(["pay.*", "mail.*"]),
        rulesFor(["*.pay", "*.mail"]),
        // None after one that matches always could match instead.
        [
          ...rulesFor(["pay.*"]).slice(0, 5),
          { ...decides, tool: "p*" },
          ...rulesFor(["pay.*"]).slice(5)
        ].slice(1)
      ])
        assert.strictEqual((yield* put(rules)).status, 200)
    })
  )

  it.effect(
    "a client that does not send the conditions of a stored rule cannot remove them by accident",
    () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, "older client")
        const when = [{ pointer: "/amount", op: "at_most" as const, value: 100 }]
        const { revision, rules } = yield* admin.approvalRules.replace({
          payload: {
            rules: [
              { effect: "reject", tool: "x" },
              { effect: "allow", when }
            ]
          }
        })
        const older = rules.map(({ when: _, ...rule }) => rule)
        const refused = yield* Effect.flip(
          admin.approvalRules.replace({ payload: { rules: older, revision } })
        )
        assert.deepStrictEqual(pointersOf(refused), ["#/rules/1/when"])
        assert.deepStrictEqual(yield* admin.approvalRules.get(), { rules, revision, warnings: [] })
        const emptied = yield* admin.approvalRules.replace({
          payload: { rules: older.map((rule) => ({ ...rule, when: [] })), revision }
        })
        assert.deepStrictEqual(
          emptied.rules.map((rule) => rule.when),
          [[], []]
        )
      })
  )

  it.effect("conditions that a concurrent request adds are not removed by accident either", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "older client at once")
      const { rules } = yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
      const when = [{ pointer: "/amount", op: "at_most", value: 100 }]
      const older = rules.map(({ when: _, ...rule }) => rule)
      const sql = yield* SqlClient.SqlClient
      const replaced = yield* sql.withTransaction(
        Effect.gen(function* () {
          const isOurs = sql`rules::jsonb @> ${JSON.stringify([{ id: rules[0]?.id }])}`
          yield* sql`SELECT 1 FROM approval_rules WHERE ${isOurs} FOR NO KEY UPDATE`
          const replacing = yield* Effect.forkDetach(
            Effect.flip(admin.approvalRules.replace({ payload: { rules: older } }))
          )
          // The request waits for this transaction.
          yield* eventually(
            sql`SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted`,
            (rows) => rows.length > 0
          )
          yield* sql`
            UPDATE approval_rules
            SET revision = revision + 1, rules = ${JSON.stringify(rules.map((rule) => ({ ...rule, when })))}
            WHERE ${isOurs}
          `
          return replacing
        })
      )
      assert.deepStrictEqual(pointersOf(yield* Fiber.join(replaced)), ["#/rules/0/when"])
    })
  )
})
