import { assert, layer } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import { type ApprovalId, StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

/** An admin and an agent of an organization with these rules, and the agent's session. */
const team = (organization: string, rules: ReadonlyArray<NewApprovalRule>) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const admin = yield* client({}, organization)
    const agent = yield* client({ preset: "runtime" }, organization)
    yield* admin.approvalRules.replace({ payload: { rules } })
    const { session_id } = yield* agent.sessions.create({})
    const ask = (step: string, args: Schema.Json, summary?: string | null) =>
      agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make(step),
          tool: "payments.refund",
          action_class: "write",
          arguments: args,
          ...(summary === undefined ? {} : { summary })
        }
      })
    const find = (id: ApprovalId | null) =>
      admin.approvals.get({ params: { id: id ?? assert.fail("the step waits for a person") } })
    return { admin, agent, ask, find, session_id }
  })

const template = "Refund {amount_cents|money:currency} on order {order}"
const refund = { amount_cents: 129_000, currency: "EUR", order: 4711 }

layer(service(), { excludeTestServices: true })("Summaries", (it) => {
  it.effect("an approval has the rule's sentence and the agent's claim, apart from each other", () =>
    Effect.gen(function* () {
      const { ask, find } = yield* team("both", [{ effect: "require_approval", summary_template: template }])
      const claimed = yield* find((yield* ask("1", refund, "Refund 12.90 EUR, as agreed")).approval_id)
      assert.strictEqual(claimed.rule_summary, "Refund 1,290.00 EUR on order 4711")
      assert.strictEqual(claimed.agent_summary, "Refund 12.90 EUR, as agreed")
      for (const [index, none] of [undefined, null, " "].entries()) {
        const { agent_summary, rule_summary } = yield* find(
          (yield* ask(`none ${index}`, {}, none)).approval_id
        )
        assert.isNull(agent_summary)
        assert.strictEqual(rule_summary, "Refund [amount_cents: missing] on order [order: missing]")
      }
    }).pipe(Effect.orDie)
  )

  it.effect(
    "a summary is no part of the step: a repeated step keeps its first one, and its digest has none",
    () =>
      Effect.gen(function* () {
        const { ask, find } = yield* team("repeated", [{ effect: "require_approval" }])
        const first = yield* ask("1", refund, "One refund")
        const again = yield* ask("1", refund, "Nothing to see here")
        assert.deepStrictEqual(again, first)
        assert.strictEqual((yield* find(first.approval_id)).agent_summary, "One refund")
        assert.isNull((yield* find(first.approval_id)).rule_summary)
      }).pipe(Effect.orDie)
  )

  it.effect("a summary of more than 500 characters is refused", () =>
    Effect.gen(function* () {
      const { ask } = yield* team("long", [{ effect: "require_approval" }])
      const refused = yield* Effect.flip(ask("1", refund, "x".repeat(501)))
      assert.strictEqual(refused.code, "INVALID_REQUEST")
      assert.strictEqual((yield* ask("1", refund, "x".repeat(500))).decision, "pending")
    })
  )

  it.effect("no event of the session has a summary", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* team("events", [
        { effect: "require_approval", summary_template: "Secret {amount_cents|number}" }
      ])
      const { approval_id } = yield* ask("1", refund, "A hidden claim")
      yield* admin.approvals.decide({
        params: { id: approval_id ?? assert.fail("the step waits for a person") },
        payload: { decision: "reject" }
      })
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly text: string }>`
        SELECT data::text AS text FROM session_events WHERE data->'approval'->>'approval_id' = ${approval_id}
      `
      assert.strictEqual(rows.length, 2)
      for (const { text } of rows) assert.notMatch(text, /hidden claim|129,000|summary/u)
    }).pipe(Effect.orDie)
  )

  it.effect("a template with a fault is refused with its place, also among shadow rules and in tests", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("faults", [])
      const rules = [
        { effect: "allow" as const },
        { effect: "require_approval" as const, summary_template: "Refund {amount|mony}" }
      ]
      const refusals = [
        yield* Effect.flip(admin.approvalRules.replace({ payload: { rules } })),
        yield* Effect.flip(admin.approvalRules.replaceShadow({ payload: { rules } }))
      ]
      for (const refused of refusals) {
        assert.deepInclude(refused, { code: "INVALID_REQUEST" })
        assert.deepStrictEqual("errors" in refused ? refused.errors : [], [
          {
            pointer: "#/rules/1/summary_template",
            detail: "At character 16: Expected a format: number, date, count or money."
          }
        ])
      }
      const invisible = yield* Effect.flip(
        admin.approvalRules.replace({
          payload: { rules: [{ effect: "require_approval", summary_template: "a\u202eb" }] }
        })
      )
      assert.strictEqual(invisible.code, "INVALID_REQUEST")
    })
  )
})
