import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { MAX_REVIEWS } from "../../../../src/api/ReviewBatch.ts"
import { FeedbackId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { createDesk, tagOf } from "../../../support/feedback.ts"
import { send, service } from "../../../support/service.ts"

/** Corrects new runs, and returns the ids of the feedback. */
const correctRuns = ({ correct, run }: Effect.Success<ReturnType<typeof createDesk>>, count: number) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => `text ${index}`),
    (text) =>
      Effect.flatMap(run(text), (trace) =>
        Effect.map(correct(trace, { category: "billing" }), ({ id }) => id)
      )
  )

layer(service(), { excludeTestServices: true })("Feedback.reviewMany", (it) => {
  it.effect("gives each correction the verdict of a single review, and says why one was not reviewed", () =>
    Effect.gen(function* () {
      const desk = yield* createDesk("many")
      const { integration, reviewer, run } = desk
      const [pending, staged, rejected] = yield* correctRuns(desk, 3)
      if (pending === undefined || staged === undefined || rejected === undefined) return assert.fail()
      yield* desk.stage(staged)
      yield* reviewer.feedback.reject({ params: { id: rejected }, payload: {} })
      const scored = yield* integration.feedback.create({
        payload: { inference_log_id: yield* run("scored"), score: 1 }
      })
      const missing = yield* FeedbackId.generate
      const { results } = yield* reviewer.feedback.reviewMany({
        payload: { feedback_ids: [missing, pending, staged, rejected, scored.id], verdict: "stage" }
      })
      assert.deepStrictEqual(
        results.map(({ feedback_id, problem, status }) => [feedback_id, status, problem?.code ?? null]),
        [
          [missing, null, "NOT_FOUND"],
          [pending, "staged", null],
          [staged, "staged", null],
          [rejected, "rejected", "FEEDBACK_NOT_PENDING"],
          [scored.id, "recorded", "FEEDBACK_NOT_PENDING"]
        ]
      )
      assert.strictEqual(results[3]?.problem?.status, 409)
      assert.match(results[3]?.problem?.detail ?? "", /already rejected/)
      const detail = yield* reviewer.feedback.get({ params: { id: pending } })
      assert.deepInclude(detail, { status: "staged", review_note: null })
      assert.strictEqual(detail.reviewed_by?.name, "Ben")

      const back = yield* reviewer.feedback.reviewMany({
        payload: { feedback_ids: [pending, staged], verdict: "unstage" }
      })
      assert.deepStrictEqual(
        back.results.map(({ status }) => status),
        ["pending", "pending"]
      )
    })
  )

  it.effect("a rejection records one redacted note with each, and repeating it changes nothing", () =>
    Effect.gen(function* () {
      const desk = yield* createDesk("note many")
      const ids = yield* correctRuns(desk, 2)
      const payload = { feedback_ids: ids, verdict: "reject" as const, note: "No: password: hunter2" }
      const first = yield* desk.reviewer.feedback.reviewMany({ payload })
      const again = yield* desk.reviewer.feedback.reviewMany({ payload: { ...payload, note: "again" } })
      assert.deepStrictEqual(again, first)
      for (const id of ids) {
        const { review_note } = yield* desk.reviewer.feedback.get({ params: { id } })
        assert.strictEqual(review_note, "No: password: [REDACTED]")
      }
      const { entries } = yield* desk.admin.auditLog.list({ query: { action: "feedback.rejected" } })
      assert.sameMembers(
        entries.map(({ target_id }) => target_id),
        [...ids]
      )
    })
  )

  it.effect("concurrent requests with opposite verdicts leave one verdict on each correction", () =>
    Effect.gen(function* () {
      const desk = yield* createDesk("raced many")
      const feedback_ids = yield* correctRuns(desk, 8)
      const [, rejections] = yield* Effect.all(
        [
          desk.reviewer.feedback.reviewMany({ payload: { feedback_ids, verdict: "stage" } }),
          desk.admin.feedback.reviewMany({ payload: { feedback_ids, verdict: "reject" } })
        ],
        { concurrency: "unbounded" }
      )
      // A staged correction can still be rejected, and a rejected one cannot be staged.
      assert.isTrue(rejections.results.every(({ status }) => status === "rejected"))
      const { entries } = yield* desk.admin.auditLog.list({ query: { action: "feedback.rejected" } })
      assert.lengthOf(entries, feedback_ids.length)
    })
  )

  it.effect("another organization's corrections do not exist, and own ones wait for another person", () =>
    Effect.gen(function* () {
      const theirs = yield* correctRuns(yield* createDesk("their many"), 1)
      const desk = yield* createDesk("own many")
      const own = yield* correctRuns(desk, 1)
      yield* desk.admin.tasks.update({ params: desk.params, payload: { self_review: false } })
      const reviewed = yield* desk.integration.feedback.reviewMany({
        payload: { feedback_ids: [...theirs, ...own], verdict: "stage" }
      })
      assert.deepStrictEqual(
        reviewed.results.map(({ problem, status }) => [status, problem?.code]),
        [
          [null, "NOT_FOUND"],
          ["pending", "SELF_REVIEW"]
        ]
      )
    })
  )

  it.effect("the request is bounded, names each correction once, and requires feedback.write", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const reviewer = yield* key({ preset: "reviewer" }, "bounded many")
      const post = (feedback_ids: ReadonlyArray<string>) =>
        send("/v1/feedback/review", {
          key: reviewer,
          method: "POST",
          body: JSON.stringify({ feedback_ids, verdict: "stage" })
        })
      const ids = yield* Effect.replicateEffect(FeedbackId.generate, MAX_REVIEWS + 1)
      assert.strictEqual((yield* post(ids)).status, 400)
      assert.strictEqual((yield* post([])).status, 400)
      const twice = yield* post([ids[0] ?? "", ids[0] ?? ""])
      assert.strictEqual(twice.errors[0]?.pointer, "#/feedback_ids/1")
      const runtime = yield* client({ preset: "runtime" }, "bounded many")
      assert.strictEqual(
        yield* tagOf(
          runtime.feedback.reviewMany({ payload: { feedback_ids: ids.slice(0, 1), verdict: "stage" } })
        ),
        "INSUFFICIENT_SCOPE"
      )
    })
  )
})

const slow = { environment: { COUNTERSIGN_RATE_LIMIT_PER_SECOND: "20" } }

layer(service(slow), { excludeTestServices: true })("Feedback.reviewMany under rate limits", (it) => {
  it.effect("counts a request for each correction: later requests of the key wait for them", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const feedback_ids = yield* Effect.replicateEffect(FeedbackId.generate, MAX_REVIEWS)
      const review = send("/v1/feedback/review", {
        key: yield* key({ preset: "reviewer" }),
        method: "POST",
        body: JSON.stringify({ feedback_ids, verdict: "stage" })
      })
      assert.strictEqual((yield* review).status, 200)
      assert.strictEqual((yield* review).status, 429)
    })
  )
})
