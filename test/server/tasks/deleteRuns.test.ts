import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { tokenize } from "../../../src/domain/tasks/tokenize.ts"
import { databaseAsText } from "../../support/databaseAsText.ts"
import { inputsOf, recomputedDigest } from "../../support/deletion.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { createDesk, tagOf } from "../../support/feedback.ts"
import { send, service } from "../../support/service.ts"

/** A desk, and a function that corrects a run of this text and promotes the correction. */
const createPromotingDesk = Effect.fnUntraced(function* (organization: string) {
  const desk = yield* createDesk(organization)
  const { admin, correct, params, run, stage } = desk
  const promote = Effect.fnUntraced(function* (text: string, category = "billing") {
    const trace_id = yield* run(text)
    const { id } = yield* correct(trace_id, { category })
    yield* stage(id)
    const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
      params,
      query: {}
    })
    const { dataset } = yield* admin.feedback.promote({
      params,
      payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
    })
    return { trace_id, feedback: id, dataset }
  })
  return { ...desk, promote }
})

const scores = (
  releases: ReadonlyArray<{ readonly positive: number; readonly neutral: number; readonly negative: number }>
) => releases.reduce((sum, { negative, neutral, positive }) => sum + positive + neutral + negative, 0)

layer(service(), { excludeTestServices: true })("Deletion of runs and feedback", (it) => {
  it.effect("a deleted run is gone with its feedback, from lists, exports, search and the database", () =>
    Effect.gen(function* () {
      const { admin, dataset, params, promote } = yield* createPromotingDesk("delete a run")
      const { dataset: second, feedback, trace_id } = yield* promote("zebras quagga okapi")
      const { dataset: third } = yield* promote("tapir")
      assert.strictEqual(third.example_count, 3)

      yield* admin.runs.remove({ params: { id: trace_id } })
      assert.strictEqual(yield* tagOf(admin.runs.get({ params: { id: trace_id } })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(admin.feedback.get({ params: { id: feedback } })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(admin.runs.remove({ params: { id: trace_id } })), "NOT_FOUND")
      const { runs } = yield* admin.runs.list({ params, query: { text: "quagga" } })
      assert.deepStrictEqual(runs, [])
      const { feedback: listed } = yield* admin.feedback.list({ query: { task_id: params.id } })
      assert.lengthOf(listed, 1)
      const text = yield* databaseAsText
      assert.notInclude(text, "quagga")

      // The tombstone keeps the digests of the versions that had the example.
      for (const version of [dataset, second, third]) {
        const found = yield* admin.datasets.get({ params: { id: version.id } })
        assert.strictEqual(found.content_digest, version.content_digest)
        assert.strictEqual(yield* recomputedDigest(admin, version.id), version.content_digest)
      }
      assert.deepStrictEqual(yield* inputsOf(admin, second.id), ["where is my parcel"])
      assert.deepInclude(yield* admin.datasets.get({ params: { id: third.id } }), {
        example_count: 2,
        examples_erased: 1
      })

      // The next version begins without it.
      const { dataset: fourth } = yield* promote("gnu")
      assert.deepInclude(fourth, { example_count: 3, examples_erased: 0 })
      assert.strictEqual(yield* recomputedDigest(admin, fourth.id), fourth.content_digest)

      const { entries } = yield* admin.auditLog.list({ query: { action: "run.deleted" } })
      assert.deepStrictEqual(
        entries.map(({ detail, target_id }) => ({ detail, target_id })),
        [{ target_id: trace_id, detail: { task_id: params.id, feedback: 1, examples: 1 } }]
      )
    })
  )

  it.effect(
    "the words of an erased example are removed from the search index, and other inputs are still found",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin, params, promote, task } = yield* createPromotingDesk("delete words")
        const { trace_id } = yield* promote("common rhinoceros")
        yield* promote("common hippopotamus")
        const postings = sql<{ readonly word: number; readonly count: number }>`
        SELECT word, sum(octet_length(postings) / 4)::int AS count
        FROM dataset_postings
        WHERE task_id = ${task.id}
        GROUP BY word
      `
        const before = yield* postings
        yield* admin.runs.remove({ params: { id: trace_id } })
        const after = yield* postings
        const sum = (rows: ReadonlyArray<{ readonly count: number }>) =>
          rows.reduce((total, { count }) => total + count, 0)
        const erased = tokenize({ text: "common rhinoceros" })
        const others = new Set(
          ["where is my parcel", "common hippopotamus"].flatMap((text) => tokenize({ text }))
        )
        const own = erased.filter((token) => !others.has(token))
        // The word, and parts of it.
        assert.isAbove(own.length, 5)
        assert.strictEqual(before.length - after.length, own.length, "the words that no other input has")
        assert.isTrue(after.every(({ word }) => !own.includes(word)))
        assert.strictEqual(sum(before) - sum(after), erased.length, "one posting per word")
        const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
        assert.strictEqual(comparison.example_count, 2)
      })
  )

  it.effect("words that an earlier version's example of the same input has stay in the search index", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { promote, task, admin } = yield* createPromotingDesk("delete a replacement")
      const postings = sql`
        SELECT word, postings
        FROM dataset_postings
        WHERE task_id = ${task.id}
        ORDER BY word
      `
      const before = yield* postings
      const { dataset, trace_id } = yield* promote("where is my parcel")
      assert.strictEqual(dataset.example_count, 1)
      yield* admin.runs.remove({ params: { id: trace_id } })
      assert.deepStrictEqual(yield* postings, before)
      assert.lengthOf(before, tokenize({ text: "where is my parcel" }).length)
    })
  )

  it.effect("deleted feedback is subtracted from the counts; its run stays", () =>
    Effect.gen(function* () {
      const { admin, correct, integration, params, run } = yield* createPromotingDesk("delete feedback")
      const trace_id = yield* run("one")
      const { id } = yield* correct(trace_id, { category: "billing" })
      yield* integration.feedback.create({
        payload: { inference_log_id: trace_id, score: 1, end_user_id: "ann" }
      })
      const count = Effect.map(admin.feedback.getQuality({ params, query: {} }), ({ releases }) =>
        scores(releases)
      )
      assert.strictEqual(yield* count, 2)
      yield* admin.feedback.remove({ params: { id } })
      assert.strictEqual(yield* count, 1)
      assert.strictEqual((yield* admin.runs.get({ params: { id: trace_id } })).trace_id, trace_id)
      assert.strictEqual(yield* tagOf(admin.feedback.remove({ params: { id } })), "NOT_FOUND")
    })
  )

  it.effect("a deleted run takes only its own example along, not those that were promoted with it", () =>
    Effect.gen(function* () {
      const { admin, correct, params, run, stage } = yield* createDesk("promoted together")
      const [first, second] = [yield* run("heron"), yield* run("stork")]
      for (const trace_id of [first, second]) {
        yield* stage((yield* correct(trace_id, { category: "billing" })).id)
      }
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      yield* admin.runs.remove({ params: { id: first } })
      assert.deepStrictEqual(yield* inputsOf(admin, dataset.id), ["stork", "where is my parcel"])
    })
  )

  it.effect("a deleted correction is no longer staged, and a promotion that expected it is refused", () =>
    Effect.gen(function* () {
      const { admin, correct, params, run, stage } = yield* createDesk("delete staged")
      const first = yield* correct(yield* run("one"), { category: "billing" })
      const second = yield* correct(yield* run("two"), { category: "billing" })
      yield* stage(first.id)
      yield* stage(second.id)
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      yield* admin.feedback.remove({ params: { id: first.id } })
      const payload = { base_dataset_id, expected_feedback_revision: feedback_revision }
      assert.strictEqual(yield* tagOf(admin.feedback.promote({ params, payload })), "FEEDBACK_CHANGED")
      const preview = yield* admin.feedback.previewPromotion({ params, query: {} })
      assert.strictEqual(preview.correction_count, 1)
    })
  )

  it.effect("a correction that is promoted while it is deleted leaves no example", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, correct, params, run, stage } = yield* createDesk("promoted meanwhile")
      const trace_id = yield* run("walrus")
      const { id } = yield* correct(trace_id, { category: "billing" })
      yield* stage(id)
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      // The deletion waits for the row, which a promotion has locked; then the promotion goes first.
      const { promotion, removal } = yield* transaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 FROM tasks WHERE task_id = ${params.id} FOR UPDATE`
          const promotion = yield* Effect.forkChild(
            admin.feedback.promote({
              params,
              payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
            })
          )
          yield* waitForBlockedStatements(1)
          const removal = yield* Effect.forkChild(admin.runs.remove({ params: { id: trace_id } }))
          yield* waitForBlockedStatements(2)
          return { promotion, removal }
        })
      )
      const { dataset } = yield* Fiber.join(promotion)
      yield* Fiber.join(removal)
      assert.deepInclude(yield* admin.datasets.get({ params: { id: dataset.id } }), {
        example_count: 1,
        examples_erased: 1
      })
      assert.notInclude(yield* databaseAsText, "walrus")
    })
  )

  it.effect("feedback on a run that is being deleted waits, gets 404, and leaves no row", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { correct, run } = yield* createDesk("feedback while deleting")
      const trace_id = yield* run("one")
      const other = yield* run("two")
      const refused = yield* transaction(
        Effect.gen(function* () {
          yield* sql`DELETE FROM runs WHERE trace_id = ${trace_id}`
          const waiting = yield* Effect.forkChild(tagOf(correct(trace_id, { category: "billing" })))
          // Feedback on another run does not wait.
          yield* correct(other, { category: "billing" })
          yield* correct(other, { category: "other" })
          assert.isUndefined(waiting.pollUnsafe())
          return waiting
        })
      )
      assert.strictEqual(yield* Fiber.join(refused), "NOT_FOUND")
      const [count] = yield* sql`SELECT count(*)::int AS rows FROM feedback WHERE trace_id = ${trace_id}`
      assert.deepStrictEqual(count, { rows: 0 })
    })
  )

  it.effect("feedback on a run whose deletion fails is stored", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, correct, run } = yield* createDesk("feedback after a failed deletion")
      const trace_id = yield* run("one")
      const other = yield* run("two")
      const stored = yield* transaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 FROM runs WHERE trace_id = ${trace_id} FOR UPDATE`
          const stored = yield* Effect.forkChild(correct(trace_id, { category: "billing" }))
          yield* correct(other, { category: "billing" })
          yield* correct(other, { category: "other" })
          return stored
        })
      )
      const { id } = yield* Fiber.join(stored)
      assert.strictEqual((yield* admin.feedback.get({ params: { id } })).inference_log_id, trace_id)
    })
  )

  it.effect("feedback on a run that stays locked gets 503, not 404", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { run } = yield* createDesk("feedback on a locked run")
      const key = yield* (yield* Countersign).key({}, "feedback on a locked run")
      const inference_log_id = yield* run("one")
      const { status } = yield* transaction(
        Effect.andThen(
          sql`SELECT 1 FROM runs WHERE trace_id = ${inference_log_id} FOR UPDATE`,
          send("/v1/feedback", { key, method: "POST", body: JSON.stringify({ inference_log_id, score: 1 }) })
        )
      )
      assert.strictEqual(status, 503)
    })
  )

  it.effect("only keys with data.delete can delete, and only data of their organization", () =>
    Effect.gen(function* () {
      const { correct, reviewer, run } = yield* createDesk("own data")
      const trace_id = yield* run("one")
      const { id } = yield* correct(trace_id, { category: "billing" })
      assert.strictEqual(
        yield* tagOf(reviewer.runs.remove({ params: { id: trace_id } })),
        "INSUFFICIENT_SCOPE"
      )
      const key = yield* (yield* Countersign).key({}, "strangers")
      for (const path of [`/v1/runs/${trace_id}`, `/v1/feedback/${id}`]) {
        assert.strictEqual((yield* send(path, { method: "DELETE", key })).status, 404)
      }
      assert.strictEqual((yield* reviewer.runs.get({ params: { id: trace_id } })).trace_id, trace_id)
    })
  )
})
