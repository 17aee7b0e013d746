import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { uuidTimePrefix } from "../../../../src/domain/Ids.ts"
import { runOnce } from "../../../../src/server/deletion/DataRetention.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { databaseAsText } from "../../../support/databaseAsText.ts"
import { completed } from "../../../support/deletion.ts"
import { awaitAnswers, providerEnvironment, reviewerTeam } from "../../../support/reviewers.ts"
import { service } from "../../../support/service.ts"

/** A session with a compared answer, as if the person had read the request. */
const compared = Effect.fnUntraced(function* (organization: string) {
  const team = yield* reviewerTeam(organization, () => ({
    decision: "approve",
    reason: `a reason of ${organization}`
  }))
  const { task_id } = team.params
  const id = yield* team.submit({ amount: 50 })
  yield* awaitAnswers(task_id, 1)
  const sql = yield* SqlClient.SqlClient
  const ago = (millis: number) => new Date(Date.now() - millis)
  yield* sql`UPDATE releases SET created_at = ${ago(3_600_000)} WHERE task_id = ${task_id}`
  yield* sql`UPDATE approvals SET requested_at = ${ago(60_000)} WHERE approval_id = ${id}`
  yield* team.decide(id, "approve")
  assert.deepInclude((yield* team.figures)[0]?.agreement, { count: 1, of: 1 })
  return team
})

layer(service({ environment: providerEnvironment }), { excludeTestServices: true, timeout: "60 seconds" })(
  "Answers of reviewer models",
  (it) => {
    it.effect("go with an erased session, are in no example, and stay counted", () =>
      Effect.gen(function* () {
        const { admin, answers, params } = yield* compared("subject")
        const version = yield* admin.reviewers.promote({ params, payload: {} })
        const deletion = yield* admin.deletions.erase({
          payload: { metadata_key: "customer", metadata_value: "subject" }
        })
        const ended = yield* completed(admin, deletion.id)
        assert.deepInclude(ended.deleted, { examples: 1, sessions: 1 })
        assert.deepStrictEqual(
          (yield* admin.datasets.listExamples({ params: { id: version.id } })).examples,
          []
        )
        assert.deepStrictEqual(yield* answers, [])
        // Without a disagreement that somebody has erased, the model would decide again.
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(
          yield* sql`SELECT answers::int AS answers FROM reviewer_counts WHERE task_id = ${params.task_id}`,
          [{ answers: 1 }]
        )
        assert.notInclude(yield* databaseAsText, "a reason of subject")
      })
    )

    it.effect("go with their task, whose schemas are fixed", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* compared("deleted")
        const id = { id: params.task_id }
        const changed = yield* Effect.flip(
          admin.tasks.update({ params: id, payload: { answer_schema: { type: "object" } } })
        )
        assert.strictEqual(changed._tag, "TASK_IN_USE")
        const deletion = yield* admin.tasks.remove({ params: id })
        assert.strictEqual((yield* Effect.flip(admin.reviewers.get({ params })))._tag, "NOT_FOUND")
        assert.deepStrictEqual((yield* admin.reviewers.list()).reviewers, [])
        yield* completed(admin, deletion.id)
        const sql = yield* SqlClient.SqlClient
        const left = yield* sql`
          SELECT task_id FROM reviewer_answers WHERE task_id = ${params.task_id}
          UNION ALL
          SELECT task_id FROM reviewer_counts WHERE task_id = ${params.task_id}
        `
        assert.deepStrictEqual(left, [])
        assert.notInclude(yield* databaseAsText, "a reason of deleted")
      })
    )

    it.effect("go with their session at the end of its retention, and stay counted", () =>
      Effect.gen(function* () {
        const { admin, agent, answers, figures, session_id } = yield* compared("retained")
        yield* agent.sessions.close({ params: { id: session_id } })
        yield* admin.retentionSettings.replace({ payload: { session_days: 30 } })
        const sql = yield* SqlClient.SqlClient
        const then = DateTime.subtract(yield* (yield* StoreClock).now, { days: 40 })
        const old = `ses_${uuidTimePrefix(then)}${session_id.slice(16)}`
        const at = DateTime.toDateUtc(then)
        yield* sql`
          UPDATE agent_sessions
          SET session_id = ${old}, created_at = ${at}, closed_at = ${at}
          WHERE session_id = ${session_id}
        `
        for (const table of ["session_events", "governed_steps", "approvals", "reviewer_answers"])
          yield* sql`UPDATE ${sql(table)} SET session_id = ${old} WHERE session_id = ${session_id}`
        yield* sql`UPDATE session_events SET occurred_at = ${at} WHERE session_id = ${old}`
        assert.deepInclude((yield* runOnce()).removed, { sessions: 1 })
        assert.deepStrictEqual(yield* answers, [])
        assert.deepInclude((yield* figures)[0]?.agreement, { count: 1, of: 1 })
        assert.notInclude(yield* databaseAsText, "a reason of retained")
      })
    )
  }
)
