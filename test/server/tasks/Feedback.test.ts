import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import type { FeedbackFilter } from "../../../src/api/Feedback.ts"
import type { PageRequest } from "../../../src/api/Pagination.ts"
import { type FeedbackId, TaskId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { createDesk, createNotesDesk, tagOf } from "../../support/feedback.ts"
import { pointersOf, send, service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("Feedback", (it) => {
  it.effect("feedback is recorded as a score, and a correction is pending until it is reviewed", () =>
    Effect.gen(function* () {
      const { correct, integration, run, task } = yield* createDesk("recorded")
      const trace_id = yield* run("hello")
      const scored = yield* integration.feedback.create({ payload: { inference_log_id: trace_id, score: 1 } })
      assert.deepInclude(scored, {
        task_id: task.id,
        inference_log_id: trace_id,
        score: 1,
        score_value: null,
        score_label: null,
        comment: null,
        source: "api_key",
        end_user: null,
        correction: null,
        status: "recorded",
        reviewed_at: null,
        reviewed_by: null,
        review_note: null,
        dataset_id: null
      })
      assert.strictEqual(scored.created_by.name, "bot")
      assert.notProperty(scored, "redaction_warning")
      const corrected = yield* correct(trace_id, { category: "shipping" })
      assert.deepInclude(corrected, { score: -1, correction: { category: "shipping" }, status: "pending" })
    })
  )

  it.effect(
    "a score other than 1, 0 and -1, or a correction that is no object, is refused with 400 and its pointer",
    () =>
      Effect.gen(function* () {
        const { run } = yield* createDesk("scores")
        const inference_log_id = yield* run("hello")
        const key = yield* (yield* Countersign).key({ preset: "integration" }, "scores")
        const post = (body: string) => send("/v1/feedback", { method: "POST", key, body })
        for (const score of ["2", "1.5", '"1"', "null", "true", "-2", "1e9", "[1]"]) {
          const answer = yield* post(`{"inference_log_id":"${inference_log_id}","score":${score}}`)
          assert.strictEqual(answer.status, 400, score)
          assert.strictEqual(answer.errors[0]?.pointer, "#/score", score)
        }
        assert.strictEqual(
          (yield* post(`{"inference_log_id":"${inference_log_id}"}`)).errors[0]?.pointer,
          "#/score"
        )
        for (const correction of ['"shipping"', "[]", "5"]) {
          const answer = yield* post(
            `{"inference_log_id":"${inference_log_id}","score":1,"correction":${correction}}`
          )
          assert.strictEqual(answer.status, 400, correction)
          assert.strictEqual(answer.errors[0]?.pointer, "#/correction", correction)
        }
        for (const score of ["1", "0", "-1", "-0", "1.0"]) {
          const answer = yield* post(`{"inference_log_id":"${inference_log_id}","score":${score}}`)
          assert.strictEqual(answer.status, 201, score)
          assert.strictEqual(answer.body["score"], Number(score) + 0)
        }
      })
  )

  it.effect("a run is named by its trace id also in capital letters, as a UUID and padded", () =>
    Effect.gen(function* () {
      const { integration, run } = yield* createDesk("spelled")
      const trace_id = yield* run("hello")
      const uuid = trace_id.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
      for (const inference_log_id of [trace_id.toUpperCase(), uuid, uuid.toUpperCase(), `${trace_id}    `]) {
        const created = yield* integration.feedback.create({ payload: { inference_log_id, score: 1 } })
        assert.strictEqual(created.inference_log_id, trace_id)
      }
    })
  )

  it.effect("feedback on an unknown run, or on another organization's, is refused with 404", () =>
    Effect.gen(function* () {
      const { integration } = yield* createDesk("ours feedback")
      const theirs = yield* createDesk("theirs feedback")
      const foreign = yield* theirs.run("hello")
      for (const inference_log_id of [foreign, "0".repeat(32), "nonsense", ""]) {
        const call = integration.feedback.create({
          payload: { inference_log_id, score: -1, correction: { category: "bogus" } }
        })
        const refused = yield* Effect.flip(call)
        assert.strictEqual(refused._tag, "NOT_FOUND")
        assert.deepStrictEqual(pointersOf(refused), ["#/inference_log_id"])
      }
      const { id } = yield* theirs.correct(foreign, { category: "billing" })
      const params = { id }
      assert.strictEqual(yield* tagOf(integration.feedback.get({ params })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(integration.feedback.stage({ params })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(integration.feedback.reject({ params, payload: {} })), "NOT_FOUND")
      assert.lengthOf((yield* integration.feedback.list({})).feedback, 0)
      const { admin } = yield* createDesk("ours feedback")
      assert.strictEqual(
        yield* tagOf(admin.feedback.previewPromotion({ params: theirs.params })),
        "NOT_FOUND"
      )
      assert.strictEqual(
        yield* tagOf(
          admin.feedback.promote({
            params: theirs.params,
            payload: { base_dataset_id: theirs.dataset.id, expected_feedback_revision: "x" }
          })
        ),
        "NOT_FOUND"
      )
    })
  )

  it.effect(
    "a correction that does not match the answer schema is refused, and each invalid field is named",
    () =>
      Effect.gen(function* () {
        const { correct, integration, run } = yield* createDesk("unfit")
        const refused = yield* Effect.flip(
          correct(yield* run("hello"), { category: "bogus", confidence: "high", extra: 1 })
        )
        assert.strictEqual(refused._tag, "INVALID_CORRECTION")
        if (refused._tag !== "INVALID_CORRECTION") return
        assert.strictEqual(refused.status, 422)
        assert.sameMembers(
          (refused.errors ?? []).map(({ pointer }) => pointer),
          ["#/correction/category", "#/correction/confidence", "#/correction/extra"]
        )
        const missing = yield* Effect.flip(correct(yield* run("hello"), {}))
        assert.strictEqual(missing._tag, "INVALID_CORRECTION")
        assert.deepStrictEqual("errors" in missing ? missing.errors : undefined, [
          { pointer: "#/correction/category", detail: "is required" }
        ])
        assert.lengthOf((yield* integration.feedback.list({})).feedback, 0)
      })
  )

  it.effect("concurrent feedback of two organizations is batched, and each caller gets its own record", () =>
    Effect.gen(function* () {
      const one = yield* createNotesDesk("at-once-1")
      const other = yield* createNotesDesk("at-once-2")
      const numbers = Array.from({ length: 30 }, (_, index) => `${index}`)
      const all = { concurrency: "unbounded" } as const
      const correctAll = (desk: typeof one) =>
        Effect.forEach(numbers, (note) => desk.correct(desk.trace_id, { note }), all)
      const [ones, others, foreign] = yield* Effect.all(
        [
          correctAll(one),
          correctAll(other),
          Effect.forEach(numbers, (note) => tagOf(one.correct(other.trace_id, { note })), all)
        ],
        all
      )
      assert.deepStrictEqual([...new Set(foreign)], ["NOT_FOUND"])
      for (const [desk, made] of [
        [one, ones],
        [other, others]
      ] as const) {
        assert.deepStrictEqual(
          made.map(({ correction }) => correction?.["note"]),
          numbers
        )
        const { feedback } = yield* desk.reviewer.feedback.list({ query: { limit: 100 } })
        assert.sameMembers(
          feedback.map(({ id }) => id),
          made.map(({ id }) => id)
        )
      }
    })
  )

  it.effect("concurrent requests with one idempotency key write one feedback record", () =>
    Effect.gen(function* () {
      const { integration, run } = yield* createDesk("idempotent")
      const payload = { inference_log_id: yield* run("hello"), score: 0 as const }
      const create = integration.feedback.create({ headers: { "idempotency-key": "one" }, payload })
      const answers = yield* Effect.all([create, create, create], { concurrency: "unbounded" })
      assert.lengthOf(new Set(answers.map(({ id }) => id)), 1)
      assert.lengthOf((yield* integration.feedback.list({})).feedback, 1)
      const other = integration.feedback.create({
        headers: { "idempotency-key": "one" },
        payload: { ...payload, score: 1 }
      })
      assert.strictEqual(yield* tagOf(other), "IDEMPOTENCY_KEY_REUSED")
    })
  )

  it.effect("feedback is listed newest first, in pages, by each filter", () =>
    Effect.gen(function* () {
      const { correct, integration, params, reviewer, run, stage } = yield* createDesk("lists")
      const first = yield* run("one")
      const second = yield* run("two")
      const ids: Array<FeedbackId> = []
      for (const score of [1, 0, -1] as const) {
        ids.push((yield* integration.feedback.create({ payload: { inference_log_id: first, score } })).id)
      }
      const pending = yield* correct(second, { category: "billing" })
      const staged = yield* stage((yield* correct(second, { category: "shipping" })).id)
      const all = [staged.id, pending.id, ...ids.toReversed()]
      const walked: Array<FeedbackId> = []
      let cursor: FeedbackId | undefined
      do {
        const page: {
          readonly feedback: ReadonlyArray<{ readonly id: FeedbackId }>
          readonly next_cursor: FeedbackId | null
        } = yield* reviewer.feedback.list({
          query: { limit: 2, ...(cursor === undefined ? {} : { cursor }) }
        })
        walked.push(...page.feedback.map(({ id }) => id))
        cursor = page.next_cursor ?? undefined
      } while (cursor !== undefined)
      assert.deepStrictEqual(walked, all)

      const now = yield* DateTime.now
      const found = (query: FeedbackFilter & PageRequest<FeedbackId>) =>
        Effect.map(reviewer.feedback.list({ query }), ({ feedback }) => feedback.map(({ id }) => id))
      assert.deepStrictEqual(yield* found({ task_id: params.id }), all)
      assert.deepStrictEqual(yield* found({ task_id: yield* TaskId.generate }), [])
      assert.deepStrictEqual(yield* found({ status: "staged" }), [staged.id])
      assert.deepStrictEqual(yield* found({ status: "pending" }), [pending.id])
      assert.deepStrictEqual(yield* found({ score: 0 }), [ids[1]!])
      assert.deepStrictEqual(yield* found({ score: -1 }), [staged.id, pending.id, ids[2]!])
      assert.deepStrictEqual(yield* found({ inference_log_id: second }), [staged.id, pending.id])
      assert.deepStrictEqual(yield* found({ has_correction: true }), [staged.id, pending.id])
      assert.deepStrictEqual(yield* found({ has_correction: false, score: 1 }), [ids[0]!])
      assert.deepStrictEqual(yield* found({ has_correction: false, status: "pending" }), [])
      assert.deepStrictEqual(yield* found({ task_id: params.id, score: -1, limit: 2 }), [
        staged.id,
        pending.id
      ])
      assert.deepStrictEqual(yield* found({ task_id: params.id, score: -1, cursor: pending.id }), [ids[2]!])
      assert.deepStrictEqual(yield* found({ inference_log_id: first, has_correction: false, score: 0 }), [
        ids[1]!
      ])
      assert.deepStrictEqual(yield* found({ created_after: DateTime.subtract(now, { minutes: 5 }) }), all)
      assert.deepStrictEqual(yield* found({ created_before: DateTime.subtract(now, { minutes: 5 }) }), [])
      const record = yield* reviewer.feedback.get({ params: { id: pending.id } })
      assert.deepStrictEqual(yield* found({ created_after: record.created_at, status: "pending" }), [
        pending.id
      ])
      assert.deepStrictEqual(yield* found({ created_before: record.created_at, status: "pending" }), [])

      const key = yield* (yield* Countersign).key({}, "lists")
      for (const query of [
        "score=2",
        "status=open",
        "limit=0",
        "limit=101",
        "cursor=x",
        "has_correction=maybe",
        "created_after=now"
      ]) {
        const answer = yield* send(`/v1/feedback?${query}`, { key })
        assert.strictEqual(answer.status, 400, query)
        assert.strictEqual(answer.errors[0]?.pointer, `#/${query.split("=")[0]}`)
      }
    })
  )

  it.effect("each operation requires its scope, and a preview either of two", () =>
    Effect.gen(function* () {
      const { params } = yield* createDesk("scopes of feedback")
      const countersign = yield* Countersign
      const only = (scope: "feedback.read" | "datasets.write" | "feedback.write") =>
        countersign.client({ name: "only", scopes: [scope] }, "scopes of feedback")
      for (const scope of ["feedback.read", "datasets.write"] as const) {
        assert.strictEqual(
          (yield* (yield* only(scope)).feedback.previewPromotion({ params })).correction_count,
          0
        )
      }
      const refused = yield* Effect.flip(
        (yield* only("feedback.write")).feedback.previewPromotion({ params })
      )
      assert.strictEqual(refused._tag, "INSUFFICIENT_SCOPE")
      assert.strictEqual(
        yield* tagOf((yield* only("feedback.write")).feedback.list({})),
        "INSUFFICIENT_SCOPE"
      )
    })
  )
})
