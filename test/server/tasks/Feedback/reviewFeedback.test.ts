import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../../../src/testing/index.ts"
import { createDesk, tagOf } from "../../../support/feedback.ts"
import { send, service } from "../../../support/service.ts"

layer(service(), { excludeTestServices: true })("reviewFeedback", (it) => {
  it.effect("a reviewer reads feedback with its run, and of two verdicts only the first takes effect", () =>
    Effect.gen(function* () {
      const { correct, integration, reviewer, run } = yield* createDesk("review")
      const trace_id = yield* run("hello")
      const { id } = yield* correct(trace_id, { category: "billing" })
      const params = { id }
      const detail = yield* reviewer.feedback.get({ params })
      assert.deepInclude(detail, { id, input: { text: "hello" }, answer: { category: "other" } })
      const staged = yield* reviewer.feedback.stage({ params })
      assert.strictEqual(staged.status, "staged")
      assert.strictEqual(staged.reviewed_by?.name, "Ben")
      assert.deepStrictEqual(yield* reviewer.feedback.stage({ params }), staged)
      assert.strictEqual(
        yield* tagOf(reviewer.feedback.reject({ params, payload: {} })),
        "FEEDBACK_NOT_PENDING"
      )

      const other = { id: (yield* correct(trace_id, { category: "shipping" })).id }
      const rejected = yield* reviewer.feedback.reject({
        params: other,
        payload: { note: "No: password: hunter2" }
      })
      assert.strictEqual(rejected.status, "rejected")
      assert.strictEqual(rejected.review_note, "No: password: [REDACTED]")
      assert.deepStrictEqual(
        yield* reviewer.feedback.reject({ params: other, payload: { note: "again" } }),
        rejected
      )
      assert.strictEqual(yield* tagOf(reviewer.feedback.stage({ params: other })), "FEEDBACK_NOT_PENDING")

      const scored = yield* integration.feedback.create({ payload: { inference_log_id: trace_id, score: 1 } })
      assert.strictEqual(
        yield* tagOf(reviewer.feedback.stage({ params: { id: scored.id } })),
        "FEEDBACK_NOT_PENDING"
      )

      // The body is optional.
      const third = yield* correct(trace_id, { category: "other" })
      const key = yield* (yield* Countersign).key({ preset: "reviewer" }, "review")
      const bare = yield* send(`/v1/feedback/${third.id}/reject`, { method: "POST", key })
      assert.strictEqual(bare.status, 200)
      assert.strictEqual(bare.body["review_note"], null)

      const verdicts = yield* Effect.all(
        [yield* correct(trace_id, { category: "other" })].flatMap((raced) =>
          Array.from({ length: 8 }, (_, index) =>
            Effect.result(
              index % 2 === 0
                ? reviewer.feedback.stage({ params: { id: raced.id } })
                : reviewer.feedback.reject({ params: { id: raced.id }, payload: {} })
            )
          )
        ),
        { concurrency: "unbounded" }
      )
      const taken = verdicts.flatMap((verdict) => (Result.isSuccess(verdict) ? [verdict.success.status] : []))
      assert.lengthOf(new Set(taken), 1)
      assert.isAtLeast(taken.length, 4)
    })
  )

  it.effect("a task has at most 10,000 staged corrections", () =>
    Effect.gen(function* () {
      const { correct, integration, run, stage } = yield* createDesk("staged in all")
      const sql = yield* SqlClient.SqlClient
      const trace_id = yield* run("first")
      const { id } = yield* stage((yield* correct(trace_id, { category: "billing" })).id)
      const last = yield* correct(trace_id, { category: "billing" })
      yield* sql`
        INSERT INTO feedback
        SELECT (jsonb_populate_record(feedback, jsonb_build_object('feedback_id', 'fbk_' || md5('g' || n)))).*
        FROM feedback, generate_series(1, 9999) AS n
        WHERE feedback_id = ${id}
      `
      assert.strictEqual(yield* tagOf(stage(last.id)), "LIMIT_REACHED")
      assert.strictEqual((yield* integration.feedback.get({ params: { id: last.id } })).status, "pending")
      // The limit of another task is separate.
      const other = yield* createDesk("staged elsewhere")
      yield* other.stage((yield* other.correct(yield* other.run("a"), { category: "billing" })).id)
    })
  )
})
