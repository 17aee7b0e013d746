import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId, TraceId } from "../../../../src/domain/Ids.ts"
import { StoredUsage } from "../../../../src/server/identity/StoredUsage.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { orgIdOf } from "../../../support/deletion.ts"
import { createDesk, tagOf } from "../../../support/feedback.ts"
import { send, service } from "../../../support/service.ts"

layer(service(), { excludeTestServices: true })("Feedback › confirmation", (it) => {
  it.effect("one call says that an answer is right, and the next promotion adds the run as an example", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage } = yield* createDesk("confirmed")
      assert.strictEqual(dataset.example_count, 1)
      const trace_id = yield* run("heron")
      const confirmed = yield* reviewer.feedback.confirm({ params: { id: trace_id }, headers: {} })
      assert.deepInclude(confirmed, { score: 1, status: "staged", correction: { category: "other" } })
      yield* stage((yield* correct(yield* run("stork"), { category: "billing" })).id)
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      const { dataset: next } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      const { examples } = yield* admin.datasets.listExamples({ params: { id: next.id }, query: {} })
      assert.sameDeepMembers(
        examples.map(({ input, origin }) => [input["text"], origin]),
        [
          ["heron", "confirmed"],
          ["stork", "correction"],
          ["where is my parcel", "made"]
        ]
      )
    })
  )

  it.effect(
    "without self-review a confirmation waits for another reviewer; a failed run has nothing to confirm",
    () =>
      Effect.gen(function* () {
        const { admin, params, reviewer, run } = yield* createDesk("confirmed by two")
        yield* admin.tasks.update({ params, payload: { self_review: false } })
        const trace_id = yield* run("heron")
        const pending = yield* admin.feedback.confirm({ params: { id: trace_id }, headers: {} })
        assert.strictEqual(pending.status, "pending")
        const staged = yield* reviewer.feedback.stage({ params: { id: pending.id } })
        assert.strictEqual(staged.status, "staged")
        const unknown = TraceId.make("1".repeat(32))
        assert.strictEqual(
          yield* tagOf(admin.feedback.confirm({ params: { id: unknown }, headers: {} })),
          "NOT_FOUND"
        )
      })
  )

  it.effect("a confirmation that is refused stores and counts nothing, also with an idempotency key", () =>
    Effect.gen(function* () {
      const { correct, reviewer, run, stage } = yield* createDesk("confirmed in vain")
      const sql = yield* SqlClient.SqlClient
      const { id } = yield* stage((yield* correct(yield* run("stork"), { category: "billing" })).id)
      yield* sql`
        INSERT INTO feedback
        SELECT (
          jsonb_populate_record(feedback, jsonb_build_object('feedback_id', 'fbk_' || md5('c' || n), 'is_current', false))
        ).*
        FROM feedback, generate_series(1, 9999) AS n
        WHERE feedback_id = ${id}
      `
      const trace_id = yield* run("heron")
      const usage = yield* StoredUsage
      const org_id = OrgId.make(yield* orgIdOf("confirmed in vain"))
      const before = yield* usage.read(org_id)
      const key = yield* (yield* Countersign).key({}, "confirmed in vain")
      for (const headers of [undefined, { "idempotency-key": "once" }]) {
        const { body } = yield* send(`/v1/runs/${trace_id}/confirm`, {
          method: "POST",
          key,
          ...(headers && { headers })
        })
        assert.strictEqual(body["code"], "LIMIT_REACHED")
        const { feedback } = yield* reviewer.feedback.list({ query: { inference_log_id: trace_id } })
        assert.deepStrictEqual(feedback, [])
        assert.deepStrictEqual(yield* usage.read(org_id), before)
      }
    })
  )
})
