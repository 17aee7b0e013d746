import { assert, layer } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

/** An organization, and a function that inserts approvals that a person decided after so many seconds, an hour apart. */
const team = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const { session_id } = yield* admin.sessions.create({})
  const asked = yield* admin.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("real"), tool: "other", action_class: "x" }
  })
  const sql = yield* SqlClient.SqlClient
  /** Copies the real approval, which stays pending. */
  const insert = (tool: string, count: number, status: "approved" | "rejected", seconds = 60) => sql`
    INSERT INTO approvals (
      org_id, approval_id, session_id, step_id, tool, action_class, arguments, arguments_bytes, arguments_digest, status, stage,
      requested_at, requested_by_id, review_deadline_at, expires_at, timeout_action, outcome, decision_source, decided_at,
      decided_by_id, decided_by_name
    )
    SELECT
      org_id, 'apr_' || encode(sha256((${tool} || n || ${status})::text::bytea), 'hex')::char(32), session_id, 'copy', ${tool}, 'write',
      json_build_object('amount', n), 20, '', ${status}, 'reviewer', at, 'key_agent', at, at, 'reject',
      CASE WHEN ${status} = 'approved' THEN 'allow' ELSE 'reject' END, 'human', at + ${seconds} * interval '1 second',
      'key_' || repeat('0', 32), 'Ada'
    FROM approvals, generate_series(1, ${count}::int) AS n, LATERAL (SELECT now() - n * interval '1 hour' AS at) AS requested
    WHERE approval_id = ${asked.approval_id}
  `
  return { admin, insert }
})

layer(service(), { excludeTestServices: true })("RuleSuggestions", (it) => {
  it.effect(
    "decisions that agree become a suggestion, before the rule that asks, and those that nobody read do not",
    () =>
      Effect.gen(function* () {
        const { admin, insert } = yield* team("suggested")
        const { rules } = yield* admin.approvalRules.replace({
          payload: { rules: [{ tool: "decided", effect: "reject" }, { effect: "require_approval" }] }
        })
        yield* insert("pay", 60, "approved")
        yield* insert("pay", 1, "rejected")
        yield* insert("mail", 50, "approved", 1)
        yield* insert("decided", 50, "approved")
        const found = yield* admin.approvalRules.suggest({ query: {} })
        const [suggestion, ...others] = found.suggestions
        assert.lengthOf(others, 0)
        assert.deepInclude(suggestion, {
          rule: { tool: "pay", action_class: "write", task_id: null, when: [], effect: "allow" },
          before_rule_id: rules[1]?.id ?? null,
          decisions: 61,
          exceptions: 1,
          measured: 61,
          people: 1
        })
        assert.lengthOf(suggestion?.exception_ids ?? [], 1)
        assert.deepInclude(found, { looked_at: 161, unread: 50, already_decided: 50, without_arguments: 0 })

        // The suggestion is accepted as a rule, and answers the questions that it was made from.
        if (suggestion === undefined) return
        const lines = yield* Stream.runCollect(
          yield* admin.approvalRules.test({ payload: { rules: [suggestion.rule] } })
        )
        assert.strictEqual(lines.at(-1)?.type, "result")
      })
  )

  it.effect("an organization without decisions gets none, and none of another's", () =>
    Effect.gen(function* () {
      const { insert } = yield* team("with decisions")
      yield* insert("pay", 60, "approved")
      const { admin } = yield* team("without decisions")
      assert.deepInclude(yield* admin.approvalRules.suggest({ query: {} }), {
        suggestions: [],
        looked_at: 0,
        oldest_at: null
      })
    })
  )

  it.effect("the newest 5,000 decisions are looked at, page by page", () =>
    Effect.gen(function* () {
      const { admin, insert } = yield* team("thousands")
      yield* insert("pay", 5_200, "approved")
      const found = yield* admin.approvalRules.suggest({ query: { max_error: 0.01 } })
      assert.deepInclude(found, { looked_at: 5_000, unread: 0 })
      assert.strictEqual(found.suggestions[0]?.decisions, 5_000)
    })
  )
})
