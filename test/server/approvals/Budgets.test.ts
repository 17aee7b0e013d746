import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect, type Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import type { RuleTestLine } from "../../../src/domain/approvals/RuleTest.ts"
import { RuleId, StepId } from "../../../src/domain/Ids.ts"
import { MAX_COUNTERS } from "../../../src/server/approvals/BudgetCounters.ts"
import { deleteExpired } from "../../../src/server/deletion/RowRetention.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../support/service.ts"

/** Text that makes a step too large for a shared statement, so that it is decided in a transaction. */
const LARGE = "x".repeat(70_000)

const paths = [
  ["a shared statement", {}],
  ["a transaction", { note: LARGE }]
] as const

const HOUR = 3_600

/** An agent with a session in an organization with these rules. */
const team = Effect.fnUntraced(function* (organization: string, rules: ReadonlyArray<NewApprovalRule>) {
  const countersign = yield* Countersign
  const key = yield* countersign.key({ preset: "admin" }, organization)
  const admin = yield* countersign.clientWith(key)
  yield* admin.approvalRules.replace({ payload: { rules } })
  const agent = yield* countersign.client({ preset: "runtime" }, organization)
  const open = Effect.map(agent.sessions.create({}), ({ session_id }) => session_id)
  const session_id = yield* open
  let number = 0
  const submit = (
    args?: Schema.JsonObject,
    over: { readonly step_id?: string; readonly claim?: boolean } = {}
  ) =>
    agent.sessions.step({
      params: { id: session_id },
      payload: {
        tool: "pay",
        action_class: "write",
        ...(args === undefined ? {} : { arguments: args }),
        ...over,
        step_id: StepId.make(over.step_id ?? `step ${++number}`)
      }
    })
  const decisions = (steps: ReadonlyArray<Schema.JsonObject>) =>
    Effect.forEach(steps, (args) => Effect.map(submit(args), ({ decision }) => decision))
  return { admin, agent, countersign, decisions, key, open, organization, session_id, submit }
})

layer(service(), { excludeTestServices: true })("Budgets", (it) => {
  for (const [path, extra] of paths) {
    it.effect(
      `in ${path}, a rule allows a number of steps, and the reason of the next one names the figures`,
      () =>
        Effect.gen(function* () {
          const { submit } = yield* team(`count in ${path}`, [
            { tool: "pay", effect: "allow", budget: { per: "session", window_seconds: HOUR, count: 3 } }
          ])
          for (const _ of Arr.range(1, 3)) {
            const { decision, reason } = yield* submit(extra)
            assert.strictEqual(decision, "allow", reason)
          }
          const { decision, reason } = yield* submit(extra)
          assert.strictEqual(decision, "pending")
          assert.strictEqual(
            reason,
            "No rule matches; a person must approve (rule 1 does not allow it: its budget per session in 1 hour is used up: 3 of 3 steps)"
          )
        })
    )

    it.effect(
      `in ${path}, a step whose number is missing, negative or no number goes on to the next rule`,
      () =>
        Effect.gen(function* () {
          const { submit } = yield* team(`sum in ${path}`, [
            {
              tool: "pay",
              effect: "allow",
              budget: { per: "key", window_seconds: HOUR, sum: { pointer: "/amount", at_most: 10 } }
            },
            { tool: "pay", effect: "reject", reason: "Too much" }
          ])
          assert.strictEqual((yield* submit({ ...extra, amount: 7.5 })).decision, "allow")
          const reasons = yield* Effect.forEach(
            [{ amount: 2.6 }, { amount: "1" }, { amount: -1 }, { other: 1 }],
            (args) =>
              Effect.map(submit({ ...extra, ...args }), ({ decision, reason }) => `${decision}: ${reason}`)
          )
          assert.deepStrictEqual(reasons, [
            "reject: Too much (rule 2) (rule 1 does not allow it: its budget per key in 1 hour has 7.5 of 10 of /amount used, and this step needs 2.6)",
            "reject: Too much (rule 2) (rule 1 does not allow it: /amount is not a number)",
            "reject: Too much (rule 2) (rule 1 does not allow it: /amount is negative)",
            "reject: Too much (rule 2) (rule 1 does not allow it: /amount is missing)"
          ])
          // They have used nothing.
          assert.strictEqual((yield* submit({ ...extra, amount: 2.5 })).decision, "allow")
        })
    )

    it.effect(
      `in ${path}, a repeated step is counted once, and stays allowed although its budget is used up`,
      () =>
        Effect.gen(function* () {
          const { submit } = yield* team(`repeated in ${path}`, [
            { tool: "pay", effect: "allow", budget: { per: "session", window_seconds: HOUR, count: 2 } },
            { tool: "pay", effect: "reject" }
          ])
          const again = () => submit(extra, { step_id: "again" })
          assert.strictEqual((yield* again()).decision, "allow")
          assert.strictEqual((yield* again()).decision, "allow")
          assert.strictEqual((yield* submit(extra)).decision, "allow")
          assert.strictEqual((yield* submit(extra)).decision, "reject")
          assert.strictEqual((yield* again()).decision, "allow")
        })
    )
  }

  it.effect(
    "steps with different values have budgets of their own, and the same value as a text has the same",
    () =>
      Effect.gen(function* () {
        const { decisions } = yield* team("by", [
          {
            tool: "pay",
            effect: "allow",
            budget: { per: "organization", window_seconds: HOUR, count: 1, by: ["/account", "/kind"] }
          },
          { tool: "pay", effect: "reject" }
        ])
        assert.deepStrictEqual(
          yield* decisions([
            { account: 100, kind: "a" },
            { account: "100", kind: "a" },
            { account: 100, kind: "b" },
            { account: 101, kind: "a" },
            { account: [101], kind: "a" },
            { account: 102 }
          ]),
          ["allow", "reject", "allow", "allow", "reject", "reject"]
        )
      })
  )

  it.effect("a step fits all budgets of its rule or uses none of them, and a claim is made with it", () =>
    Effect.gen(function* () {
      const { submit } = yield* team("several", [
        {
          tool: "pay",
          effect: "allow",
          budgets: [
            { per: "session", window_seconds: HOUR, count: 2 },
            { per: "session", window_seconds: HOUR, sum: { pointer: "/amount", at_most: 100 } }
          ]
        },
        { tool: "pay", effect: "reject" }
      ])
      assert.strictEqual((yield* submit({ amount: 101 })).decision, "reject")
      const claimed = yield* submit({ amount: 60 }, { claim: true })
      assert.isDefined(claimed.claim)
      assert.strictEqual((yield* submit({ amount: 50 })).decision, "reject")
      assert.strictEqual((yield* submit({ amount: 40 })).decision, "allow")
      assert.strictEqual((yield* submit({ amount: 0 })).decision, "reject")
    })
  )

  it.effect("beyond the budget a person is asked, and what a person or a grant allows uses none of it", () =>
    Effect.gen(function* () {
      const { admin, countersign, organization, submit } = yield* team("grants", [
        { tool: "pay", effect: "allow", budget: { per: "session", window_seconds: HOUR, count: 2 } },
        { tool: "pay", effect: "require_approval" }
      ])
      yield* submit()
      yield* submit()
      const asked = yield* submit()
      const reviewer = yield* countersign.client({ preset: "reviewer" }, organization)
      yield* reviewer.approvals.decide({
        params: { id: asked.approval_id ?? assert.fail("it waits") },
        payload: { decision: "approve", grant: { scope: "tool" } }
      })
      const granted = yield* submit()
      assert.strictEqual(granted.decision_source, "grant")
      const { rules } = yield* admin.approvalRules.get({})
      const [first, second] = rules
      if (first === undefined || second === undefined) return assert.fail("there are two")
      // Another limit goes on counting: two steps were used.
      const budgets = [{ ...(first.budgets[0] ?? assert.fail("it has one")), count: 3 }]
      yield* admin.approvalRules.replace({ payload: { rules: [{ ...first, budgets }, second] } })
      assert.strictEqual((yield* submit()).decision_source, "rule")
      assert.strictEqual((yield* submit()).decision_source, "grant")
    })
  )

  it.effect("a rule that rejects now overrides what another rule than the one with the budget allowed", () =>
    Effect.gen(function* () {
      const { admin, agent, countersign, organization, session_id, submit } = yield* team("overridden", [
        { tool: "pay", effect: "allow", budget: { per: "session", window_seconds: HOUR, count: 1 } },
        { tool: "pay", effect: "require_approval", when: [{ pointer: "/ask", op: "equals", value: true }] },
        { tool: "pay", effect: "allow" }
      ])
      const again = (step_id: string, ask: boolean) => submit({ ask }, { step_id })
      assert.strictEqual((yield* again("counted", true)).decision, "allow")
      const asked = yield* again("asked", true)
      assert.strictEqual((yield* again("allowed", false)).decision, "allow")
      const reviewer = yield* countersign.client({ preset: "reviewer" }, organization)
      yield* reviewer.approvals.decide({
        params: { id: asked.approval_id ?? assert.fail("it waits") },
        payload: { decision: "approve" }
      })
      const { rules } = yield* admin.approvalRules.get({})
      const [budgeted] = rules
      if (budgeted === undefined) return assert.fail("there are three")
      const stopped = yield* admin.approvalRules.replace({
        payload: { rules: [budgeted, { tool: "pay", effect: "reject", reason: "Stop" }] }
      })
      const paramsOf = (step_id: string) => ({ id: session_id, step_id: StepId.make(step_id) })
      const payload = { status: "succeeded" as const }
      // Its agent has not received the approval.
      const report = agent.sessions.reportOutcome({ params: paramsOf("asked"), payload })
      assert.strictEqual((yield* Effect.flip(report))._tag, "STEP_NOT_ALLOWED")
      for (const step_id of ["asked", "allowed"]) {
        const claim = agent.sessions.claim({ params: paramsOf(step_id), payload: {} })
        assert.strictEqual((yield* Effect.flip(claim))._tag, "STEP_NOT_ALLOWED", step_id)
        assert.deepInclude(yield* again(step_id, step_id === "asked"), {
          decision: "reject",
          rule_id: stopped.rules[1]?.id ?? assert.fail("there are two"),
          reason: "Stop (rule 2) (rule 1 does not allow it: its budget does not count this step)"
        })
      }
      // Its own rule still allows it.
      assert.isDefined((yield* submit({ ask: true }, { step_id: "counted", claim: true })).claim)
    })
  )

  it.effect(
    "beyond the limit of counters a step that needs another one does not fit, and the others go on",
    () =>
      Effect.gen(function* () {
        const { decisions, session_id, submit } = yield* team("full", [
          {
            tool: "pay",
            effect: "allow",
            budget: { per: "organization", window_seconds: HOUR, count: 2, by: ["/account"] }
          },
          { tool: "pay", effect: "reject" }
        ])
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        INSERT INTO budget_counters (org_id, counter, version, entries, expires_at)
        SELECT org_id, 'seeded ' || n, 1, '[]', now() + interval '1 hour'
        FROM agent_sessions, generate_series(2, ${MAX_COUNTERS}::int) AS n
        WHERE session_id = ${session_id}
      `
        assert.deepStrictEqual(yield* decisions([{ account: 1 }]), ["allow"])
        const { decision, reason } = yield* submit({ account: 2 })
        assert.strictEqual(decision, "reject")
        assert.include(reason, "this organization has too many different budgets in use")
        assert.deepStrictEqual(yield* decisions([{ account: 1 }, { account: 1 }]), ["allow", "reject"])
      })
  )

  it.effect("budgets that can never be used are refused with their place", () =>
    Effect.gen(function* () {
      const { key } = yield* team("faults", [])
      const budget = { per: "session", window_seconds: HOUR, count: 1 }
      const sum = { pointer: "/a", at_most: 1 }
      for (const [rule, pointer] of [
        [{ effect: "allow", budget: { ...budget, count: 0 } }, "/budget/count"],
        [{ effect: "allow", budget: { ...budget, window_seconds: 0 } }, "/budget/window_seconds"],
        [{ effect: "allow", budget: { ...budget, window_seconds: 2_592_001 } }, "/budget/window_seconds"],
        [{ effect: "allow", budget: { ...budget, sum: { ...sum, at_most: -1 } } }, "/budget/sum/at_most"],
        [{ effect: "allow", budget: { ...budget, sum: { ...sum, at_most: 0 } } }, "/budget/sum/at_most"],
        [{ effect: "allow", budget: { ...budget, sum: { ...sum, pointer: "a" } } }, "/budget/sum/pointer"],
        [{ effect: "allow", budget: { ...budget, counts: 1 } }, "/budget/counts"],
        [{ effect: "allow", budget: { ...budget, per: "agent" } }, "/budget/per"],
        [{ effect: "allow", budget: { ...budget, by: ["/a", "/a"] } }, "/budgets/0/by"],
        [{ effect: "allow", budget: { per: "session", window_seconds: HOUR } }, "/budgets/0"],
        [{ effect: "allow", budgets: [budget, { ...budget, count: 2 }] }, "/budgets/1"],
        [{ effect: "allow", budget, budgets: [budget] }, "/budget"],
        [{ effect: "reject", budget }, "/budgets"]
      ] as const) {
        const { body, status } = yield* send("/v1/approval-rules", {
          key,
          method: "PUT",
          body: JSON.stringify({ rules: [rule] })
        })
        assert.strictEqual(status, 400, JSON.stringify(body))
        assert.deepStrictEqual(pointersOf(body), [`#/rules/0${pointer}`])
      }
    })
  )

  it.effect("a stored rule with budgets is not replaced by one without the member", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("kept", [
        { tool: "pay", effect: "allow", budget: { per: "session", window_seconds: HOUR, count: 2 } }
      ])
      const [rule] = (yield* admin.approvalRules.get({})).rules
      if (rule === undefined) return assert.fail("there is one")
      const { budgets: _, ...rest } = rule
      const refused = yield* Effect.flip(admin.approvalRules.replace({ payload: { rules: [rest] } }))
      assert.deepStrictEqual(pointersOf(refused), ["#/rules/0/budgets"])
      yield* admin.approvalRules.replace({ payload: { rules: [{ ...rest, budgets: [] }] } })
    })
  )

  it.effect("a pointer that leads to a number in no recorded step gets a warning with its place", () =>
    Effect.gen(function* () {
      const rules = [
        {
          tool: "pay",
          effect: "allow" as const,
          budgets: [
            { per: "session" as const, window_seconds: HOUR, sum: { pointer: "/amount", at_most: 100 } },
            { per: "key" as const, window_seconds: HOUR, sum: { pointer: "/amuont", at_most: 100 } }
          ]
        }
      ]
      const { admin, submit } = yield* team("warnings", [])
      const replace = Effect.map(
        admin.approvalRules.replace({ payload: { rules } }),
        ({ warnings }) => warnings
      )
      assert.deepStrictEqual(yield* replace, [])
      yield* submit({ amount: 5 })
      const warnings = [
        {
          pointer: "#/rules/0/budgets/1/sum/pointer",
          detail:
            'None of 1 recorded step of this rule\'s tool has a number at "/amuont", so the rule would have allowed none of them. Correct the pointer.'
        }
      ]
      assert.deepStrictEqual(yield* replace, warnings)
      assert.deepStrictEqual((yield* admin.approvalRules.get({})).warnings, warnings)
      const lines: ReadonlyArray<RuleTestLine> = yield* Stream.runCollect(
        yield* admin.approvalRules.test({ payload: { rules } })
      )
      const result = lines.at(-1)
      assert.deepStrictEqual(result?.type === "result" ? result.warnings : undefined, warnings)
    })
  )

  it.effect(
    "a test of rules uses budgets in the order of the recorded steps, and shadow rules count their own",
    () =>
      Effect.gen(function* () {
        const { admin, decisions } = yield* team("history", [{ tool: "pay", effect: "allow" }])
        const budgeted: ReadonlyArray<NewApprovalRule> = [
          {
            id: RuleId.make(`rul_${"b".repeat(32)}`),
            tool: "pay",
            effect: "allow",
            budget: { per: "key", window_seconds: HOUR, sum: { pointer: "/amount", at_most: 10 } }
          },
          { tool: "pay", effect: "reject" }
        ]
        yield* admin.approvalRules.replaceShadow({ payload: { rules: budgeted } })
        const amounts = [6, 5, 4, 1].map((amount) => ({ amount }))
        assert.deepStrictEqual(yield* decisions(amounts), ["allow", "allow", "allow", "allow"])
        const lines: ReadonlyArray<RuleTestLine> = yield* Stream.runCollect(
          yield* admin.approvalRules.test({ payload: { rules: budgeted } })
        )
        const result = lines.at(-1)
        // Newest first, 1, 4 and 5 would fit and 6 would not.
        assert.deepStrictEqual(result?.type === "result" ? result.tested : undefined, {
          allow: 2,
          reject: 2,
          require_approval: 0
        })
        const { changes, differences } = yield* admin.approvalRules.listShadowDifferences({ query: {} })
        assert.deepStrictEqual(changes, [{ live: "allow", shadow: "reject", steps: 2 }])
        assert.include(
          differences[0]?.shadow.reason,
          "its budget per key in 1 hour has 10 of 10 of /amount used, and this step needs 1"
        )
        yield* admin.approvalRules.promoteShadow({ payload: {} })
        assert.deepStrictEqual(yield* decisions([{ amount: 10 }, { amount: 1 }]), ["allow", "reject"])
      })
  )
})

layer(service(), { timeout: "60 seconds" })("Budgets › windows", (it) => {
  it.effect(
    "a step counts until its window has passed, and a counter that counts none is deleted and begins again",
    () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.UTC(2026, 10, 23, 12))
        const { advance } = yield* Countersign
        const sql = yield* SqlClient.SqlClient
        const counters = Effect.map(sql`SELECT FROM budget_counters`, ({ length }) => length)
        const { decisions } = yield* team("window", [
          { tool: "pay", effect: "allow", budget: { per: "session", window_seconds: HOUR, count: 2 } },
          { tool: "pay", effect: "reject" }
        ])
        assert.deepStrictEqual(yield* decisions([{}]), ["allow"])
        yield* advance("40 minutes")
        assert.deepStrictEqual(yield* decisions([{}, {}]), ["allow", "reject"])
        yield* advance("20 minutes")
        assert.deepStrictEqual(yield* decisions([{}, {}]), ["allow", "reject"])
        yield* advance("40 minutes")
        assert.deepStrictEqual(yield* decisions([{}, {}]), ["allow", "reject"])
        assert.strictEqual(yield* counters, 1)
        yield* advance("4 hours")
        yield* deleteExpired("budget_counter_retention", 0)
        assert.strictEqual(yield* counters, 0)
        // This replica has cached the counter.
        assert.deepStrictEqual(yield* decisions([{}, {}, {}]), ["allow", "allow", "reject"])
      })
  )
})
