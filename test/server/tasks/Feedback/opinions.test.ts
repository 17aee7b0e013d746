import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type FeedbackId, OrgId } from "../../../../src/domain/Ids.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { readCounts, recount } from "../../../support/counts.ts"
import { completed, orgIdOf } from "../../../support/deletion.ts"
import { eventually } from "../../../support/eventually.ts"
import { tagOf } from "../../../support/feedback.ts"
import { send } from "../../../support/service.ts"
import { createSortingTask } from "../../../support/tasks.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"

/** A task with a run that its release answered, an admin, and a key that gives feedback on it. */
const createRun = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const key = yield* countersign.key({ preset: "end_user_feedback", name: "web" }, organization)
  const admin = yield* countersign.client({ name: "Ada" }, organization)
  const web = yield* countersign.clientWith(key)
  const { params } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
  const { trace_id } = yield* admin.tasks.run({ params, payload: { input: { text: "where is my parcel" } } })
  const org_id = OrgId.make(yield* orgIdOf(organization))
  const give = (score: 1 | 0 | -1, end_user_id?: string) =>
    web.feedback.create({
      payload: { inference_log_id: trace_id, score, ...(end_user_id === undefined ? {} : { end_user_id }) }
    })
  const scores = Effect.map(
    admin.feedback.getQuality({ params, query: {} }),
    ({ releases: [total] }) => total && [total.positive, total.neutral, total.negative]
  )
  const isCurrent = (id: FeedbackId) =>
    Effect.map(admin.feedback.get({ params: { id } }), ({ current }) => current)
  return { admin, give, isCurrent, key, org_id, params, scores, trace_id, web }
})

/** Asserts that the counts are those of the stored current feedback, which is at most one of each author on a run. */
const assertExact = Effect.fnUntraced(function* (org_id: OrgId) {
  const sql = yield* SqlClient.SqlClient
  assert.deepStrictEqual(yield* readCounts(org_id), yield* recount(org_id))
  const twice = yield* sql`
    SELECT trace_id, author
    FROM feedback
    WHERE org_id = ${org_id}
      AND is_current
    GROUP BY 1, 2
    HAVING count(*) > 1
  `
  assert.deepStrictEqual(twice, [])
})

layer(layerTwoReplicas, { excludeTestServices: true })("Feedback › opinions", (it) => {
  it.effect("the latest opinion of an author counts, and earlier ones stay as history", () =>
    Effect.gen(function* () {
      const { admin, give, isCurrent, org_id, params, scores, trace_id } = yield* createRun("latest")
      const first = yield* give(1)
      const other = yield* give(1, "ann")
      assert.isTrue(first.current)
      const second = yield* give(-1)
      assert.deepStrictEqual(yield* scores, [1, 0, 1])
      const changed = yield* give(0, "ann")
      assert.deepStrictEqual(yield* scores, [0, 1, 1])
      const { feedback } = yield* admin.feedback.list({ query: { inference_log_id: trace_id } })
      assert.deepStrictEqual(
        feedback.map(({ current, id }) => [id, current]),
        [
          [changed.id, true],
          [second.id, true],
          [other.id, false],
          [first.id, false]
        ]
      )
      // Another key is another author.
      yield* admin.feedback.create({ payload: { inference_log_id: trace_id, score: 1 } })
      assert.deepStrictEqual(yield* scores, [1, 1, 1])
      const runsWith = (score: 1 | 0 | -1) =>
        Effect.map(admin.runs.list({ params, query: { score } }), ({ runs }) => runs.length)
      assert.deepStrictEqual(yield* Effect.all([runsWith(1), runsWith(0), runsWith(-1)]), [1, 1, 1])
      assert.isFalse(yield* isCurrent(first.id))
      yield* assertExact(org_id)
    })
  )

  it.effect("an end user is one author over all of its feedback tokens, and a token of no user is one", () =>
    Effect.gen(function* () {
      const { org_id, scores, trace_id, web } = yield* createRun("tokens")
      const give = Effect.fnUntraced(function* (score: 1 | 0 | -1, end_user_id: string | null) {
        const { token, url } = yield* web.feedback.createToken({
          params: { id: trace_id },
          payload: { end_user_id, max_uses: 3 }
        })
        const sendScore = (sent: 1 | 0 | -1) =>
          send(new URL(url).pathname, { method: "POST", key: token, body: JSON.stringify({ score: sent }) })
        assert.strictEqual((yield* sendScore(score)).status, 204)
        return sendScore
      })
      yield* give(1, "ann")
      yield* give(-1, "ann")
      assert.deepStrictEqual(yield* scores, [0, 0, 1])
      const again = yield* give(1, null)
      yield* give(1, null)
      assert.deepStrictEqual(yield* scores, [2, 0, 1])
      yield* again(0)
      assert.deepStrictEqual(yield* scores, [1, 1, 1])
      yield* assertExact(org_id)
    })
  )

  it.effect(
    "of opinions of few authors at the same moment on two replicas each author has one, exactly counted",
    () =>
      Effect.gen(function* () {
        const { admin, key, org_id, params, scores, trace_id, web: first } = yield* createRun("races")
        const second = yield* Effect.provideContext(
          Effect.flatMap(Countersign, (countersign) => countersign.clientWith(key)),
          yield* SecondReplica
        )
        const { trace_id: other } = yield* admin.tasks.run({
          params,
          payload: { input: { text: "where is my parcel" } }
        })
        const given = yield* Effect.forEach(
          Array.from({ length: 240 }, (_, index) => index),
          (index) =>
            (index % 2 === 0 ? first : second).feedback.create({
              payload: {
                inference_log_id: index % 3 === 0 ? other : trace_id,
                score: index % 5 === 0 ? -1 : 1,
                score_label: `label ${index % 4}`,
                end_user_id: `user ${index % 7}`
              }
            }),
          { concurrency: 60 }
        )
        assert.lengthOf(new Set(given.map(({ id }) => id)), 240)
        yield* assertExact(org_id)
        const { feedback } = yield* admin.feedback.list({ query: { limit: 100 } })
        const total = (yield* scores) ?? []
        assert.strictEqual(
          total.reduce((sum, count) => sum + count, 0),
          14
        )
        // Withdrawals, deletions and new opinions at the same time.
        yield* Effect.forEach(
          feedback,
          ({ id }, index): Effect.Effect<unknown> => {
            if (index % 3 === 1) return Effect.orDie(admin.feedback.remove({ params: { id } }))
            const web = index % 2 === 0 ? first : second
            if (index % 3 === 0) return Effect.orDie(web.feedback.withdraw({ params: { id } }))
            const payload = {
              inference_log_id: trace_id,
              score: 0,
              end_user_id: `user ${index % 7}`
            } as const
            return Effect.orDie(web.feedback.create({ payload }))
          },
          { concurrency: 30, discard: true }
        )
        yield* assertExact(org_id)
      })
  )

  it.effect("a withdrawn opinion counts no more, and does not bring the earlier one back", () =>
    Effect.gen(function* () {
      const { admin, give, isCurrent, org_id, params, scores, trace_id, web } = yield* createRun("withdrawn")
      const first = yield* give(1)
      const second = yield* give(-1)
      const withdrawn = yield* web.feedback.withdraw({ params: { id: second.id } })
      assert.deepInclude(withdrawn, { id: second.id, current: false, status: "recorded" })
      assert.isNotNull(withdrawn.withdrawn_at)
      assert.deepStrictEqual(yield* web.feedback.withdraw({ params: { id: second.id } }), withdrawn)
      assert.isUndefined(yield* scores)
      assert.isFalse(yield* isCurrent(first.id))
      const { runs } = yield* admin.runs.list({ params, query: { has_feedback: true } })
      assert.deepStrictEqual(runs, [])
      // What counts no more can be withdrawn too.
      assert.isNotNull((yield* web.feedback.withdraw({ params: { id: first.id } })).withdrawn_at)
      const third = yield* give(0)
      assert.deepStrictEqual(yield* scores, [0, 1, 0])
      const { entries } = yield* admin.auditLog.list({ query: { action: "feedback.withdrawn" } })
      assert.deepStrictEqual(
        entries.map(({ target_id }) => target_id),
        [first.id, second.id]
      )
      yield* assertExact(org_id)
      // Deleting what counts, or what does not, leaves the counts right.
      yield* admin.feedback.remove({ params: { id: second.id } })
      assert.deepStrictEqual(yield* scores, [0, 1, 0])
      yield* admin.feedback.remove({ params: { id: third.id } })
      assert.isUndefined(yield* scores)
      yield* give(1, "ann")
      yield* give(-1, "ann")
      const { feedback } = yield* admin.feedback.list({ query: { inference_log_id: trace_id } })
      assert.lengthOf(feedback, 3)
      const erasure = yield* admin.deletions.erase({ payload: { end_user_id: "ann" } })
      yield* completed(admin, erasure.id)
      assert.isUndefined(yield* scores)
      yield* assertExact(org_id)
    })
  )

  it.effect("the author alone withdraws: its key, or a key that it made", () =>
    Effect.gen(function* () {
      const { admin, give, web } = yield* createRun("authors")
      const { id } = yield* give(1)
      const refused = yield* Effect.flip(admin.feedback.withdraw({ params: { id } }))
      assert.strictEqual(refused._tag, "FEEDBACK_OF_ANOTHER_KEY")
      const own = yield* admin.feedback.create({
        payload: {
          inference_log_id: (yield* admin.feedback.get({ params: { id } })).inference_log_id,
          score: 1
        }
      })
      const made = yield* admin.apiKeys.create({ payload: { name: "made", preset: "reviewer" } })
      const child = yield* Effect.flatMap(Countersign, (countersign) =>
        countersign.clientWith(Redacted.make(made.secret))
      )
      assert.isFalse((yield* child.feedback.withdraw({ params: { id: own.id } })).current)
      assert.strictEqual(
        yield* tagOf(web.feedback.withdraw({ params: { id: own.id } })),
        "FEEDBACK_OF_ANOTHER_KEY"
      )
      const other = yield* createRun("strangers")
      assert.strictEqual(yield* tagOf(other.web.feedback.withdraw({ params: { id } })), "NOT_FOUND")
    })
  )

  it.effect("a withdrawn correction leaves the review, and a promoted one stays an example", () =>
    Effect.gen(function* () {
      const { admin, params, trace_id } = yield* createRun("corrections")
      const correct = (category: string, inference_log_id = trace_id) =>
        admin.feedback.create({ payload: { inference_log_id, score: -1, correction: { category } } })
      const earlier = yield* correct("billing")
      const staged = yield* correct("other")
      // The earlier correction stays in review.
      assert.deepInclude(yield* admin.feedback.get({ params: { id: earlier.id } }), {
        status: "pending",
        current: false
      })
      yield* admin.feedback.stage({ params: { id: staged.id } })
      const withdrawn = yield* admin.feedback.withdraw({ params: { id: staged.id } })
      assert.strictEqual(withdrawn.status, "withdrawn")
      assert.strictEqual(
        yield* tagOf(admin.feedback.stage({ params: { id: staged.id } })),
        "FEEDBACK_NOT_PENDING"
      )
      const preview = yield* admin.feedback.previewPromotion({ params, query: {} })
      assert.strictEqual(preview.correction_count, 0)
      yield* admin.feedback.stage({ params: { id: earlier.id } })
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      const promoted = yield* admin.feedback.withdraw({ params: { id: earlier.id } })
      assert.deepInclude(promoted, { status: "promoted", dataset_id: dataset.id, current: false })
      const { feedback } = yield* admin.feedback.list({ query: { status: "withdrawn" } })
      assert.deepStrictEqual(
        feedback.map(({ id }) => id),
        [staged.id]
      )
    })
  )

  it.effect(
    "an opinion waits while another transaction has locked the author's earlier one, and others do not",
    () =>
      Effect.gen(function* () {
        const { give, isCurrent, org_id, scores } = yield* createRun("locked")
        const sql = yield* SqlClient.SqlClient
        const first = yield* give(1)
        const waiting = yield* transaction(
          Effect.gen(function* () {
            yield* sql`SELECT 1 FROM feedback WHERE feedback_id = ${first.id} FOR UPDATE`
            const fiber = yield* Effect.forkDetach(give(-1))
            // Feedback of others in the same batches is stored meanwhile.
            yield* give(0, "ann")
            assert.isTrue(yield* isCurrent(first.id))
            return fiber
          })
        )
        yield* eventually(
          Effect.sync(() => waiting.pollUnsafe()),
          (exit) => exit !== undefined
        )
        assert.deepStrictEqual(yield* scores, [0, 1, 1])
        assert.isFalse(yield* isCurrent(first.id))
        yield* assertExact(org_id)
      })
  )
})
