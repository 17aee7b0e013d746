import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { FeedbackFilter, NewFeedback } from "../../../../src/api/Feedback.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { createDesk } from "../../../support/feedback.ts"
import { pointersOf, send, service } from "../../../support/service.ts"

/** A desk with one run and a function that gives feedback on it. */
const createRun = Effect.fnUntraced(function* (organization: string) {
  const desk = yield* createDesk(organization)
  const trace_id = yield* desk.run("where is my parcel")
  const give = (judgement: Omit<NewFeedback, "inference_log_id">) =>
    desk.integration.feedback.create({ payload: { inference_log_id: trace_id, ...judgement } })
  return { ...desk, trace_id, give }
})

layer(service(), { excludeTestServices: true })("Feedback › values, labels and comments", (it) => {
  it.effect("a value has the nearest score, unless a score is given", () =>
    Effect.gen(function* () {
      const { give } = yield* createRun("values")
      for (const [score_value, score] of [
        [1, 1],
        [0.5, 1],
        [0.49, 0],
        [-0, 0],
        [-0.49, 0],
        [-0.5, -1],
        [-1, -1]
      ] as const) {
        const given = yield* give({ score_value })
        assert.deepInclude(given, { score, score_value: score_value + 0 })
      }
      assert.deepInclude(yield* give({ score: 1, score_value: 0.2 }), { score: 1, score_value: 0.2 })
      assert.deepStrictEqual(pointersOf(yield* Effect.flip(give({}))), ["#/score"])
      assert.deepStrictEqual(pointersOf(yield* Effect.flip(give({ comment: "so so" }))), ["#/score"])
    })
  )

  it.effect("values, labels and comments out of their bounds are refused with 400 and their pointers", () =>
    Effect.gen(function* () {
      const { trace_id } = yield* createRun("bounds")
      const key = yield* (yield* Countersign).key({ preset: "integration" }, "bounds")
      for (const [member, value] of [
        ["score_value", 1.0001],
        ["score_value", -2],
        ["score_value", "1"],
        ["score_label", ""],
        ["score_label", "x".repeat(65)],
        ["score_label", "two\nlines"],
        ["comment", "x".repeat(4_001)],
        ["comment", 5],
        ["end_user_id", ""],
        ["end_user_id", "x".repeat(257)]
      ] as const) {
        const answer = yield* send("/v1/feedback", {
          method: "POST",
          key,
          body: JSON.stringify({ inference_log_id: trace_id, score: 1, [member]: value })
        })
        assert.strictEqual(answer.status, 400, `${member} ${value}`)
        assert.strictEqual(answer.errors[0]?.pointer, `#/${member}`)
      }
    })
  )

  it.effect("secrets are redacted from a comment, beside those of the correction", () =>
    Effect.gen(function* () {
      const { give } = yield* createRun("comments")
      const secret = ["ghp", "16C7e42F292c6912E7710c838347Ae178B4a"].join("_")
      const given = yield* give({ score: -1, comment: `use ${secret}, not this` })
      assert.strictEqual(given.comment, "use [REDACTED], not this")
      assert.strictEqual(given.redaction_warning, "Protected values were removed from #/comment")
      const plain = yield* give({ score: -1, comment: "just wrong" })
      assert.strictEqual(plain.comment, "just wrong")
      assert.notProperty(plain, "redaction_warning")
      assert.isNull((yield* give({ score: -1, comment: "" })).comment)
    })
  )

  it.effect("feedback is listed by label, comment and end user, alone and with other filters", () =>
    Effect.gen(function* () {
      const { admin, correct, give, task, trace_id } = yield* createRun("filters")
      const labelled = yield* give({ score: -1, score_label: "too long" })
      const commented = yield* give({ score: 1, comment: "good", end_user_id: "one" })
      const both = yield* give({ score: -1, score_label: "too long", comment: "bad", end_user_id: "one" })
      yield* give({ score: 0, end_user_id: "two" })
      yield* correct(trace_id, { category: "shipping" })
      const listed = (filter: FeedbackFilter) =>
        Effect.map(admin.feedback.list({ query: filter }), ({ feedback }) => feedback.map(({ id }) => id))
      const end_user = commented.end_user ?? assert.fail("a pseudonym")
      assert.deepStrictEqual(yield* listed({ score_label: "too long" }), [both.id, labelled.id])
      assert.deepStrictEqual(yield* listed({ score_label: "too long", task_id: task.id }), [
        both.id,
        labelled.id
      ])
      assert.deepStrictEqual(yield* listed({ score_label: "too long", has_comment: true }), [both.id])
      assert.deepStrictEqual(yield* listed({ score_label: "too short" }), [])
      assert.deepStrictEqual(yield* listed({ has_comment: true }), [both.id, commented.id])
      assert.deepStrictEqual(yield* listed({ has_comment: true, score: 1 }), [commented.id])
      assert.deepStrictEqual(yield* listed({ end_user }), [both.id, commented.id])
      assert.deepStrictEqual(yield* listed({ end_user, score: -1 }), [both.id])
      assert.deepStrictEqual(yield* listed({ end_user, has_correction: true }), [])
      const other = yield* createRun("filters elsewhere")
      assert.lengthOf((yield* other.admin.feedback.list({ query: { end_user } })).feedback, 0)
    })
  )

  it.effect("the quality has the mean of the values and the counts of the labels", () =>
    Effect.gen(function* () {
      const { admin, give, task } = yield* createRun("quality of values")
      const params = { id: task.id }
      yield* give({ score: 1, end_user_id: "user 1" })
      yield* give({ score_value: 0.25, score_label: "too long", end_user_id: "user 2" })
      yield* give({ score_value: -0.75, score_label: "too long", end_user_id: "user 3" })
      const deleted = yield* give({ score_value: 0.9, score_label: "rude", end_user_id: "user 4" })
      yield* give({ score: -1, score_label: "wrong", end_user_id: "user 5" })
      const before = yield* admin.feedback.getQuality({ params, query: {} })
      assert.deepStrictEqual(before.releases[0]?.labels, [
        { label: "too long", count: 2 },
        { label: "rude", count: 1 },
        { label: "wrong", count: 1 }
      ])
      yield* admin.feedback.remove({ params: { id: deleted.id } })
      const {
        days: [day],
        releases: [total]
      } = yield* admin.feedback.getQuality({ params, query: {} })
      assert.closeTo(total?.score_mean ?? Number.NaN, (1 + 0.25 - 0.75 - 1) / 4, 1e-9)
      assert.strictEqual(day?.score_mean, total?.score_mean)
      assert.deepInclude(total, { positive: 1, neutral: 1, negative: 2 })
      assert.deepStrictEqual(total?.labels, [
        { label: "too long", count: 2 },
        { label: "wrong", count: 1 }
      ])
    })
  )

  it.effect("the feedback of a task has a limited number of labels", () =>
    Effect.gen(function* () {
      const { give } = yield* createRun("many labels")
      for (let number = 0; number < 50; number++) {
        yield* give({ score: 0, score_label: `label ${number}` })
      }
      const refused = yield* Effect.flip(give({ score: 0, score_label: "one more" }))
      assert.strictEqual(refused._tag, "LIMIT_REACHED")
      yield* give({ score: 0, score_label: "label 7" })
    })
  )
})
