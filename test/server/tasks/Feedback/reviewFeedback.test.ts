import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Result } from "effect"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { createDesk, tagOf } from "../../../support/feedback.ts"
import { send, service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("reviewFeedback", (it) => {
  it.effect("a reviewer reads feedback with its run, and a rejected correction stays rejected", () =>
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
      // Whatever their order, the rejections succeed, and no staging after them does.
      const taken = verdicts.map((verdict) =>
        Result.isSuccess(verdict) ? verdict.success.status : verdict.failure._tag
      )
      assert.isAtLeast(taken.filter((status) => status === "rejected").length, 4)
      assert.deepStrictEqual(
        taken.filter((status) => status !== "rejected" && status !== "staged"),
        taken.filter((status) => status === "FEEDBACK_NOT_PENDING")
      )
      const { feedback } = yield* reviewer.feedback.list({ query: { limit: 1 } })
      assert.strictEqual(feedback[0]?.status, "rejected")
    })
  )

  it.effect("a staged correction can be un-staged and rejected until it is promoted", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params: task, reviewer, run } = yield* createDesk("undo")
      const { id } = yield* correct(yield* run("undone"), { category: "billing" })
      const params = { id }
      const pending = yield* reviewer.feedback.get({ params })
      yield* reviewer.feedback.stage({ params })
      const before = yield* reviewer.feedback.previewPromotion({ params: task })
      const unstaged = yield* reviewer.feedback.unstage({ params })
      assert.deepInclude(unstaged, {
        status: "pending",
        reviewed_at: null,
        reviewed_by: null,
        review_note: null
      })
      assert.deepStrictEqual(yield* reviewer.feedback.unstage({ params }), unstaged)
      assert.deepStrictEqual(yield* reviewer.feedback.get({ params }), pending)
      assert.strictEqual((yield* reviewer.feedback.previewPromotion({ params: task })).correction_count, 0)
      const { entries } = yield* admin.auditLog.list({ query: { action: "feedback.unstaged" } })
      assert.deepStrictEqual(
        entries.map(({ actor, target_id }) => [actor?.name, target_id]),
        [["Ben", id]]
      )

      // What was previewed before is not what is staged now, although it is the same correction.
      yield* reviewer.feedback.stage({ params })
      const payload = { base_dataset_id: dataset.id, expected_feedback_revision: before.feedback_revision }
      assert.strictEqual(yield* tagOf(admin.feedback.promote({ params: task, payload })), "FEEDBACK_CHANGED")

      const rejected = yield* reviewer.feedback.reject({ params, payload: { note: "no" } })
      assert.deepInclude(rejected, { status: "rejected", review_note: "no" })
      assert.strictEqual(yield* tagOf(reviewer.feedback.unstage({ params })), "FEEDBACK_NOT_PENDING")
      assert.strictEqual(yield* tagOf(reviewer.feedback.stage({ params })), "FEEDBACK_NOT_PENDING")

      const other = { id: (yield* correct(yield* run("kept"), { category: "billing" })).id }
      yield* reviewer.feedback.stage({ params: other })
      const { base_dataset_id, feedback_revision } = yield* reviewer.feedback.previewPromotion({
        params: task
      })
      yield* admin.feedback.promote({
        params: task,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      assert.strictEqual(yield* tagOf(reviewer.feedback.unstage({ params: other })), "FEEDBACK_NOT_PENDING")
      assert.strictEqual(
        yield* tagOf(reviewer.feedback.reject({ params: other, payload: {} })),
        "FEEDBACK_NOT_PENDING"
      )
    })
  )

  it.effect("with self_review off, another person's key has to stage a correction", () =>
    Effect.gen(function* () {
      const { admin, params, reviewer, run } = yield* createDesk("four eyes")
      const trace_id = yield* run("hello")
      const correct = Effect.fnUntraced(function* (category: string) {
        const payload = { inference_log_id: trace_id, score: -1, correction: { category } } as const
        return { id: (yield* admin.feedback.create({ payload })).id }
      })
      const before = yield* correct("billing")
      assert.isTrue((yield* admin.tasks.get({ params })).self_review)
      assert.strictEqual((yield* admin.feedback.stage({ params: before })).status, "staged")

      yield* admin.tasks.update({ params, payload: { self_review: false } })
      const own = yield* correct("other")
      const refused = yield* Effect.flip(admin.feedback.stage({ params: own }))
      assert.strictEqual(refused._tag, "SELF_REVIEW")
      const made = yield* admin.apiKeys.create({ payload: { name: "second", preset: "reviewer" } })
      const throughNewKey = yield* send(`/v1/feedback/${own.id}/stage`, { method: "POST", key: made.secret })
      assert.deepStrictEqual([throughNewKey.status, throughNewKey.body["code"]], [403, "SELF_REVIEW"])
      // What is staged can be staged again, un-staged and rejected by its submitter.
      assert.strictEqual((yield* admin.feedback.stage({ params: before })).status, "staged")
      yield* admin.feedback.unstage({ params: before })
      assert.strictEqual(yield* tagOf(admin.feedback.stage({ params: before })), "SELF_REVIEW")
      assert.strictEqual((yield* admin.feedback.reject({ params: before, payload: {} })).status, "rejected")
      assert.strictEqual((yield* reviewer.feedback.stage({ params: own })).status, "staged")
      const task = yield* admin.tasks.create({ payload: { ...sortingTask, self_review: false } })
      assert.isFalse(task.self_review)
      const { entries } = yield* admin.auditLog.list({ query: { action: "task.updated" } })
      assert.deepStrictEqual(entries[0]?.detail, { changed: ["self_review"] })
    })
  )

  it.effect("a verdict that waits for another replica's verdict of the same correction is refused", () =>
    Effect.gen(function* () {
      const { correct, reviewer, run } = yield* createDesk("verdicts at once")
      const sql = yield* SqlClient.SqlClient
      const { id } = yield* correct(yield* run("hello"), { category: "billing" })
      const written = yield* Deferred.make<void>()
      const commit = yield* Deferred.make<void>()
      const other = yield* Effect.forkChild(
        transaction(
          sql`
            UPDATE feedback
            SET status = 'rejected', reviewed_at = now(), reviewed_by_id = 'key', reviewed_by_name = 'Eve'
            WHERE feedback_id = ${id}
          `.pipe(Effect.andThen(Deferred.succeed(written, undefined)), Effect.andThen(Deferred.await(commit)))
        )
      )
      yield* Deferred.await(written)
      const waiting = yield* Effect.forkChild(tagOf(reviewer.feedback.stage({ params: { id } })))
      yield* transaction(waitForBlockedStatements(1))
      yield* Deferred.succeed(commit, undefined)
      yield* Fiber.join(other)
      assert.strictEqual(yield* Fiber.join(waiting), "FEEDBACK_NOT_PENDING")
    })
  )

  it.effect("feedback whose run is deleted while it is read or staged is not found", () =>
    Effect.gen(function* () {
      const { correct, reviewer, run } = yield* createDesk("run deleted meanwhile")
      const sql = yield* SqlClient.SqlClient
      const trace_id = yield* run("hello")
      const params = { id: (yield* correct(trace_id, { category: "billing" })).id }
      // What a request sees that read the feedback before both were deleted.
      yield* sql`DELETE FROM runs WHERE trace_id = ${trace_id}`
      assert.strictEqual(yield* tagOf(reviewer.feedback.get({ params })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(reviewer.feedback.stage({ params })), "NOT_FOUND")
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
