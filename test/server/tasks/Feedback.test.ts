import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Fiber, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { PageRequest } from "../../../src/api/Pagination.ts"
import type { JsonObject } from "../../../src/domain/tasks/Dataset.ts"
import { type DatasetId, type FeedbackId, TaskId } from "../../../src/domain/Ids.ts"
import type { FeedbackFilter } from "../../../src/api/Feedback.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { sortingTask, createSortingTask } from "../../support/tasks.ts"

/** A task of its own organization, one logged run, and clients by their roles. */
const desk = (organization: string) =>
  Effect.gen(function* () {
    const countersign = yield* Countersign
    const admin = yield* countersign.client({ name: "Ada" }, organization)
    const integration = yield* countersign.client({ preset: "integration", name: "bot" }, organization)
    const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ben" }, organization)
    const { dataset, params, task } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
    const run = (text: string) =>
      Effect.map(
        admin.tasks.run({ params, payload: { input: { text }, answer: { category: "other" } } }),
        ({ trace_id }) => trace_id
      )
    const correct = (inference_log_id: string, correction: JsonObject) =>
      integration.feedback.create({ payload: { inference_log_id, score: -1, correction } })
    const stage = (id: FeedbackId) => reviewer.feedback.stage({ params: { id } })
    return { admin, correct, dataset, integration, params, reviewer, run, stage, task }
  })

/** A task whose answers are a note and whatever else. */
const notes = (organization: string) =>
  Effect.gen(function* () {
    const { admin, ...rest } = yield* desk(organization)
    const task = yield* admin.tasks.create({
      payload: {
        ...sortingTask,
        answer_schema: {
          type: "object",
          required: ["note"],
          properties: { note: { type: "string" }, code: { type: "string", pattern: "^[a-zA-Z0-9_]+$" } }
        }
      }
    })
    const { trace_id } = yield* admin.tasks.run({
      params: { task_id: task.id },
      payload: { input: { text: "a" }, answer: { note: "b" } }
    })
    return { ...rest, admin, task, trace_id }
  })

const tag = <A, E extends { readonly _tag: string }, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), ({ _tag }) => _tag)

layer(service(), { excludeTestServices: true })("feedback", (it) => {
  it.effect("is a score, and a correction waits for a reviewer", () =>
    Effect.gen(function* () {
      const { correct, integration, run, task } = yield* desk("recorded")
      const trace_id = yield* run("hello")
      const scored = yield* integration.feedback.create({ payload: { inference_log_id: trace_id, score: 1 } })
      assert.deepInclude(scored, {
        task_id: task.id,
        inference_log_id: trace_id,
        score: 1,
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

  it.effect("takes no score but 1, 0 and -1, and no correction but an object: 400, with the field", () =>
    Effect.gen(function* () {
      const { run } = yield* desk("scores")
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
        const answer = yield* post(`{"inference_log_id":"${inference_log_id}","score":${score},"more":true}`)
        assert.strictEqual(answer.status, 201, score)
        assert.strictEqual(answer.body["score"], Number(score) + 0)
      }
    })
  )

  it.effect("on a run that there is not, another organization's included, is 404 at once", () =>
    Effect.gen(function* () {
      const { integration } = yield* desk("ours feedback")
      const theirs = yield* desk("theirs feedback")
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
      assert.strictEqual(yield* tag(integration.feedback.get({ params })), "NOT_FOUND")
      assert.strictEqual(yield* tag(integration.feedback.stage({ params })), "NOT_FOUND")
      assert.strictEqual(yield* tag(integration.feedback.reject({ params, payload: {} })), "NOT_FOUND")
      assert.lengthOf((yield* integration.feedback.list({})).feedback, 0)
      const { admin } = yield* desk("ours feedback")
      assert.strictEqual(yield* tag(admin.feedback.preview({ params: theirs.params })), "NOT_FOUND")
      assert.strictEqual(
        yield* tag(
          admin.feedback.promote({
            params: theirs.params,
            payload: { base_dataset_id: theirs.dataset.id, expected_feedback_revision: "x" }
          })
        ),
        "NOT_FOUND"
      )
    })
  )

  it.effect("refuses a correction that does not fit, and names each field at fault", () =>
    Effect.gen(function* () {
      const { correct, integration, run } = yield* desk("unfit")
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

  it.effect("that comes at once from many is each caller's own, of whichever organization", () =>
    Effect.gen(function* () {
      const one = yield* notes("at-once-1")
      const other = yield* notes("at-once-2")
      const numbers = Array.from({ length: 30 }, (_, index) => `${index}`)
      const all = { concurrency: "unbounded" } as const
      const told = (desk: typeof one) =>
        Effect.forEach(numbers, (note) => desk.correct(desk.trace_id, { note }), all)
      const [ones, others, strangers] = yield* Effect.all(
        [
          told(one),
          told(other),
          Effect.forEach(numbers, (note) => tag(one.correct(other.trace_id, { note })), all)
        ],
        all
      )
      assert.deepStrictEqual([...new Set(strangers)], ["NOT_FOUND"])
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

  it.effect("is written once under one idempotency key", () =>
    Effect.gen(function* () {
      const { integration, run } = yield* desk("idempotent")
      const payload = { inference_log_id: yield* run("hello"), score: 0 as const }
      const create = integration.feedback.create({ headers: { "idempotency-key": "one" }, payload })
      const answers = yield* Effect.all([create, create, create], { concurrency: "unbounded" })
      assert.lengthOf(new Set(answers.map(({ id }) => id)), 1)
      assert.lengthOf((yield* integration.feedback.list({})).feedback, 1)
      const other = integration.feedback.create({
        headers: { "idempotency-key": "one" },
        payload: { ...payload, score: 1 }
      })
      assert.strictEqual(yield* tag(other), "IDEMPOTENCY_KEY_REUSED")
    })
  )

  it.effect("is listed newest first, page by page, by each filter", () =>
    Effect.gen(function* () {
      const { correct, integration, params, reviewer, run, stage } = yield* desk("lists")
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
      assert.deepStrictEqual(yield* found({ task_id: params.task_id }), all)
      assert.deepStrictEqual(yield* found({ task_id: yield* TaskId.generate }), [])
      assert.deepStrictEqual(yield* found({ status: "staged" }), [staged.id])
      assert.deepStrictEqual(yield* found({ status: "pending" }), [pending.id])
      assert.deepStrictEqual(yield* found({ score: 0 }), [ids[1]!])
      assert.deepStrictEqual(yield* found({ score: -1 }), [staged.id, pending.id, ids[2]!])
      assert.deepStrictEqual(yield* found({ inference_log_id: second }), [staged.id, pending.id])
      assert.deepStrictEqual(yield* found({ has_correction: true }), [staged.id, pending.id])
      assert.deepStrictEqual(yield* found({ has_correction: false, score: 1 }), [ids[0]!])
      assert.deepStrictEqual(yield* found({ has_correction: false, status: "pending" }), [])
      assert.deepStrictEqual(yield* found({ task_id: params.task_id, score: -1, limit: 2 }), [
        staged.id,
        pending.id
      ])
      assert.deepStrictEqual(yield* found({ task_id: params.task_id, score: -1, cursor: pending.id }), [
        ids[2]!
      ])
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

  it.effect("is shown to the reviewer with the run's input and answer, and reviewed once", () =>
    Effect.gen(function* () {
      const { correct, integration, reviewer, run } = yield* desk("review")
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
        yield* tag(reviewer.feedback.reject({ params, payload: {} })),
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
      assert.strictEqual(yield* tag(reviewer.feedback.stage({ params: other })), "FEEDBACK_NOT_PENDING")

      const scored = yield* integration.feedback.create({ payload: { inference_log_id: trace_id, score: 1 } })
      assert.strictEqual(
        yield* tag(reviewer.feedback.stage({ params: { id: scored.id } })),
        "FEEDBACK_NOT_PENDING"
      )

      // Also without a body: nothing need be said.
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

  it.effect("is promoted as it was previewed: one version, and each correction says into which", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage, task } = yield* desk("promote")
      const known = yield* run("where is my parcel")
      const fresh = yield* run("refund me")
      const first = yield* stage((yield* correct(known, { category: "billing" })).id)
      const second = yield* stage((yield* correct(known, { category: "other" })).id)
      const third = yield* stage((yield* correct(fresh, { category: "billing" })).id)
      const rejected = yield* correct(fresh, { category: "shipping" })
      yield* reviewer.feedback.reject({ params: { id: rejected.id }, payload: {} })

      const preview = yield* reviewer.feedback.preview({ params })
      assert.strictEqual(preview.base_dataset_id, dataset.id)
      assert.deepStrictEqual(
        preview.corrections.map(({ correction, id, input }) => ({ correction, id, input })),
        [
          { id: third.id, input: { text: "refund me" }, correction: { category: "billing" } },
          { id: second.id, input: { text: "where is my parcel" }, correction: { category: "other" } }
        ]
      )
      assert.deepStrictEqual(preview.superseded, [{ id: first.id, superseded_by: second.id }])
      assert.deepInclude(preview, {
        examples_added: 1,
        examples_replaced: 1,
        correction_count: 2,
        superseded_count: 1,
        next_cursor: null
      })
      assert.deepStrictEqual(yield* admin.feedback.preview({ params }), preview)

      // As a replica that does not know the column yet stages.
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE feedback SET input_bytes = NULL WHERE feedback_id = ${third.id}`
      assert.deepStrictEqual(yield* admin.feedback.preview({ params }), preview)

      const {
        dataset: made,
        feedback_revision,
        promoted
      } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: dataset.id, expected_feedback_revision: preview.feedback_revision }
      })
      assert.deepInclude(made, {
        task_id: task.id,
        version: 2,
        base_dataset_id: dataset.id,
        example_count: 2
      })
      assert.deepStrictEqual(promoted, [third.id, second.id])
      assert.notStrictEqual(feedback_revision, preview.feedback_revision)
      const { examples } = yield* admin.datasets.examples({ params: { id: made.id } })
      assert.sameDeepMembers(
        examples.map(({ answer, input, source_feedback_id }) => ({ answer, input, source_feedback_id })),
        [
          { input: { text: "refund me" }, answer: { category: "billing" }, source_feedback_id: third.id },
          {
            input: { text: "where is my parcel" },
            answer: { category: "other" },
            source_feedback_id: second.id
          }
        ]
      )
      const state = (id: FeedbackId) =>
        Effect.map(reviewer.feedback.get({ params: { id } }), ({ dataset_id, status }) => [
          status,
          dataset_id
        ])
      assert.deepStrictEqual(yield* state(first.id), ["superseded", null])
      assert.deepStrictEqual(yield* state(second.id), ["promoted", made.id])
      assert.deepStrictEqual(yield* state(third.id), ["promoted", made.id])
      assert.deepStrictEqual(yield* state(rejected.id), ["rejected", null])
      assert.strictEqual((yield* stage(second.id)).status, "promoted")

      // What is live is as it was, and the old version too.
      assert.strictEqual((yield* admin.tasks.get({ params })).live_release_id, task.live_release_id)
      assert.lengthOf((yield* admin.datasets.examples({ params: { id: dataset.id } })).examples, 1)
      const { entries } = yield* admin.audit_log.list({ query: { action: "feedback.promoted" } })
      assert.deepStrictEqual(
        entries.map(({ detail, target_id }) => ({ detail, target_id })),
        [{ target_id: made.id, detail: { task_id: task.id, promoted: 2, superseded: 1 } }]
      )
      assert.deepInclude(yield* admin.feedback.preview({ params }), {
        base_dataset_id: made.id,
        feedback_revision,
        corrections: [],
        superseded: []
      })
    })
  )

  it.effect("makes the first version of a task that has none", () =>
    Effect.gen(function* () {
      const { admin, integration, reviewer } = yield* desk("first version")
      const task = yield* admin.tasks.create({ payload: sortingTask })
      const params = { task_id: task.id }
      const { trace_id } = yield* admin.tasks.run({
        params,
        payload: { input: { text: "hi" }, answer: { category: "other" } }
      })
      const { id } = yield* integration.feedback.create({
        payload: { inference_log_id: trace_id, score: -1, correction: { category: "billing" } }
      })
      yield* reviewer.feedback.stage({ params: { id } })
      const preview = yield* reviewer.feedback.preview({ params })
      assert.isNull(preview.base_dataset_id)
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: null, expected_feedback_revision: preview.feedback_revision }
      })
      assert.deepInclude(dataset, { version: 1, base_dataset_id: null, example_count: 1 })
    })
  )

  it.effect("of two runs with one input that was staged later is what is answered from then on", () =>
    Effect.gen(function* () {
      const { admin, integration, reviewer } = yield* desk("equal inputs")
      const task = yield* admin.tasks.create({ payload: sortingTask })
      const params = { task_id: task.id }
      const input = { text: "hi" }
      const corrected = Effect.fnUntraced(function* (category: string) {
        const run = yield* admin.tasks.run({ params, payload: { input, answer: { category: "other" } } })
        const payload = { inference_log_id: run.trace_id, score: -1, correction: { category } } as const
        return (yield* integration.feedback.create({ payload })).id
      })
      const earlier = yield* corrected("billing")
      const later = yield* corrected("shipping")
      for (const id of [earlier, later]) yield* reviewer.feedback.stage({ params: { id } })
      const { feedback_revision } = yield* reviewer.feedback.preview({ params })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: null, expected_feedback_revision: feedback_revision }
      })
      const { answer } = yield* admin.tasks.run({ params, payload: { input } })
      assert.deepStrictEqual(answer, { category: "shipping" })
      const { examples } = yield* admin.datasets.examples({ params: { id: dataset.id } })
      assert.deepStrictEqual(
        examples.map(({ source_feedback_id }) => source_feedback_id),
        [later, earlier]
      )
    })
  )

  it.effect("is previewed a few at a time where the inputs are large", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage } = yield* desk("large inputs")
      const ids: Array<string> = []
      for (const letter of ["a", "b", "c"]) {
        // Of more bytes than characters.
        const trace_id = yield* run(letter.repeat(50) + "é".repeat(1_600_000))
        ids.push((yield* stage((yield* correct(trace_id, { category: "billing" })).id)).id)
      }
      const preview = yield* reviewer.feedback.preview({ params })
      assert.lengthOf(preview.corrections, 2)
      const next = yield* reviewer.feedback.preview({ params, query: { cursor: preview.next_cursor! } })
      assert.deepStrictEqual(
        [...preview.corrections, ...next.corrections].map(({ id }) => id as string),
        ids.toReversed()
      )
      const { promoted } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: dataset.id, expected_feedback_revision: preview.feedback_revision }
      })
      assert.lengthOf(promoted, 3)
    })
  )

  it.effect(
    "is not promoted where the dataset has changed, or the set, in that order; nor where nothing is staged",
    () =>
      Effect.gen(function* () {
        const { admin, correct, dataset, params, run, stage } = yield* desk("conflicts")
        const promote = (base_dataset_id: typeof dataset.id | null, expected_feedback_revision: string) =>
          admin.feedback.promote({ params, payload: { base_dataset_id, expected_feedback_revision } })
        const empty = yield* admin.feedback.preview({ params })
        assert.strictEqual(yield* tag(promote(dataset.id, empty.feedback_revision)), "NOTHING_STAGED")

        yield* stage((yield* correct(yield* run("one"), { category: "billing" })).id)
        const old = yield* admin.feedback.preview({ params })
        yield* stage((yield* correct(yield* run("two"), { category: "billing" })).id)
        const { feedback_revision } = yield* admin.feedback.preview({ params })
        const stale = yield* Effect.flip(promote(dataset.id, old.feedback_revision))
        assert.strictEqual(stale._tag, "FEEDBACK_CHANGED")
        if (stale._tag === "FEEDBACK_CHANGED") {
          assert.strictEqual(stale.current_dataset_id, dataset.id)
          assert.strictEqual(stale.current_feedback_revision, feedback_revision)
        }
        // Both are wrong: the base is told of.
        const both = yield* Effect.flip(promote(null, old.feedback_revision))
        assert.strictEqual(both._tag, "DATASET_BASE_CHANGED")
        if (both._tag === "DATASET_BASE_CHANGED") {
          assert.strictEqual(both.current_dataset_id, dataset.id)
          assert.strictEqual(both.current_feedback_revision, feedback_revision)
        }
        yield* promote(dataset.id, feedback_revision)
        assert.strictEqual(yield* tag(promote(dataset.id, feedback_revision)), "DATASET_BASE_CHANGED")
        const key = yield* (yield* Countersign).key({}, "conflicts")
        for (const body of [
          "{}",
          '{"base_dataset_id":null}',
          `{"base_dataset_id":5,"expected_feedback_revision":"x"}`
        ]) {
          const answer = yield* send(`/v1/tasks/${params.task_id}/feedback/promote`, {
            method: "POST",
            key,
            body
          })
          assert.strictEqual(answer.status, 400)
        }
      })
  )

  it.effect("is promoted once, however many promote at a time", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, run, stage } = yield* desk("racing")
      for (let count = 0; count < 5; count++) {
        yield* stage((yield* correct(yield* run(`text ${count}`), { category: "billing" })).id)
      }
      const { feedback_revision } = yield* admin.feedback.preview({ params })
      const payload = { base_dataset_id: dataset.id, expected_feedback_revision: feedback_revision }
      const outcomes = yield* Effect.all(
        Array.from({ length: 20 }, () => Effect.result(admin.feedback.promote({ params, payload }))),
        { concurrency: "unbounded" }
      )
      const tags = outcomes.map((outcome) => (Result.isSuccess(outcome) ? "promoted" : outcome.failure._tag))
      assert.deepStrictEqual(
        tags.toSorted(),
        [...Array.from({ length: 19 }, () => "DATASET_BASE_CHANGED"), "promoted"].toSorted()
      )
      assert.lengthOf((yield* admin.datasets.list({ params })).datasets, 2)
    })
  )

  it.effect("is promoted once each, while others go on staging", () =>
    Effect.gen(function* () {
      const { admin, correct, params, run, stage } = yield* desk("staging on")
      const ids = yield* Effect.forEach(Array.from({ length: 24 }), (_, number) =>
        Effect.flatMap(run(`text ${number}`), (trace_id) =>
          Effect.map(correct(trace_id, { category: "billing" }), ({ id }) => id)
        )
      )
      const staging = yield* Effect.forkChild(Effect.forEach(ids, stage, { discard: true }))
      const versions: Array<{ readonly id: DatasetId; readonly promoted: ReadonlyArray<FeedbackId> }> = []
      /** As a client does: look, promote what was seen, and look again where that has changed. */
      const promoter: Effect.Effect<void, unknown> = Effect.gen(function* () {
        while (versions.reduce((sum, { promoted }) => sum + promoted.length, 0) < ids.length) {
          const { base_dataset_id, feedback_revision } = yield* admin.feedback.preview({ params })
          yield* admin.feedback
            .promote({ params, payload: { base_dataset_id, expected_feedback_revision: feedback_revision } })
            .pipe(
              Effect.map(({ dataset: { id }, promoted }) => void versions.push({ id, promoted })),
              Effect.catchTags({
                DATASET_BASE_CHANGED: () => Effect.void,
                FEEDBACK_CHANGED: () => Effect.void,
                NOTHING_STAGED: () => Effect.void
              })
            )
        }
      })
      yield* Effect.all([promoter, promoter, promoter, promoter], { concurrency: "unbounded" })
      yield* Fiber.join(staging)
      assert.sameMembers(
        versions.flatMap(({ promoted }) => promoted),
        ids
      )
      const { datasets } = yield* admin.datasets.list({ params })
      assert.lengthOf(datasets, 1 + versions.length)
      assert.strictEqual(datasets[0]?.example_count, 1 + ids.length)
      for (const { id, promoted } of versions) {
        const [first] = promoted
        assert.strictEqual((yield* admin.feedback.get({ params: { id: first! } })).dataset_id, id)
      }
    })
  )

  it.effect("asks for the scopes of each operation, either of two for a preview", () =>
    Effect.gen(function* () {
      const { params } = yield* desk("scopes of feedback")
      const countersign = yield* Countersign
      const only = (scope: "feedback.read" | "datasets.write" | "feedback.write") =>
        countersign.client({ name: "only", scopes: [scope] }, "scopes of feedback")
      for (const scope of ["feedback.read", "datasets.write"] as const) {
        assert.strictEqual((yield* (yield* only(scope)).feedback.preview({ params })).correction_count, 0)
      }
      const refused = yield* Effect.flip((yield* only("feedback.write")).feedback.preview({ params }))
      assert.strictEqual(refused._tag, "INSUFFICIENT_SCOPE")
      assert.strictEqual(yield* tag((yield* only("feedback.write")).feedback.list({})), "INSUFFICIENT_SCOPE")
    })
  )

  it.effect("is promoted by the thousand, in pages and pieces", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, run, stage } = yield* desk("thousands")
      const sql = yield* SqlClient.SqlClient
      const { id } = yield* stage((yield* correct(yield* run("first"), { category: "billing" })).id)
      yield* sql`
        INSERT INTO runs
        SELECT (jsonb_populate_record(runs, jsonb_build_object(
          'trace_id', md5(n::text), 'input', json_build_object('text', 'text ' || n)
        ))).*
        FROM runs, generate_series(1, 3000) AS n
        WHERE trace_id = (SELECT trace_id FROM feedback WHERE feedback_id = ${id})
      `
      yield* sql`
        INSERT INTO feedback
        SELECT (jsonb_populate_record(feedback, jsonb_build_object(
          'feedback_id', 'fbk_' || md5('f' || n), 'trace_id', md5(n::text), 'input_digest', encode(sha256(n::text::bytea), 'hex')
        ))).*
        FROM feedback, generate_series(1, 3000) AS n
        WHERE feedback_id = ${id}
      `
      const preview = yield* admin.feedback.preview({ params, query: { limit: 100 } })
      assert.lengthOf(preview.corrections, 100)
      assert.deepInclude(preview, { correction_count: 3001, examples_added: 3001 })
      const next = yield* admin.feedback.preview({
        params,
        query: { limit: 1, cursor: preview.next_cursor! }
      })
      assert.isTrue(next.corrections[0]!.id < preview.corrections.at(-1)!.id)
      assert.strictEqual(next.feedback_revision, preview.feedback_revision)
      const { dataset: made, promoted } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: dataset.id, expected_feedback_revision: preview.feedback_revision }
      })
      assert.lengthOf(promoted, 3001)
      assert.strictEqual(made.example_count, 3002)
    })
  )

  it.effect("is staged up to 10,000 corrections of a task, which are then to be promoted", () =>
    Effect.gen(function* () {
      const { correct, integration, run, stage } = yield* desk("staged in all")
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
      assert.strictEqual(yield* tag(stage(last.id)), "LIMIT_REACHED")
      assert.strictEqual((yield* integration.feedback.get({ params: { id: last.id } })).status, "pending")
      // Other tasks have theirs.
      const other = yield* desk("staged elsewhere")
      yield* other.stage((yield* other.correct(yield* other.run("a"), { category: "billing" })).id)
    })
  )
})

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "a correction is kept without protected values",
  (it) => {
    it.effect("and a warning names the fields, never the values; the names of fields decide nothing", () =>
      Effect.gen(function* () {
        const { integration, reviewer, trace_id } = yield* notes("redaction")
        const created = yield* integration.feedback.create({
          payload: {
            inference_log_id: trace_id,
            score: -1,
            correction: {
              note: "The password is hunter2",
              session: "monday morning",
              token: "order-4411",
              more: [{ url: "postgres://ada:tr0ub4dor@db/x" }]
            }
          }
        })
        assert.deepStrictEqual(created.correction, {
          note: "The password is [REDACTED]",
          session: "monday morning",
          token: "order-4411",
          more: [{ url: "postgres://ada:[REDACTED]@db/x" }]
        })
        assert.strictEqual(
          created.redaction_warning,
          "Protected values were removed from #/correction/note, #/correction/more/0/url"
        )
        const { answer: _, input: __, ...kept } = yield* reviewer.feedback.get({ params: { id: created.id } })
        assert.deepStrictEqual(kept, created)
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{
          readonly all: string
        }>`SELECT feedback::text AS all FROM feedback WHERE feedback_id = ${created.id}`
        assert.notInclude(rows[0]?.all, "hunter2")
        assert.notInclude(rows[0]?.all, "tr0ub4dor")
      })
    )

    it.effect(
      "among them the organization's own: signing secrets as soon as they are made or replaced, provider keys, API keys",
      () =>
        Effect.gen(function* () {
          const { admin, integration, trace_id } = yield* notes("own secrets")
          const kept = (note: string) =>
            Effect.map(
              integration.feedback.create({
                payload: { inference_log_id: trace_id, score: -1, correction: { note } }
              }),
              ({ correction }) => correction?.["note"]
            )
          assert.strictEqual(yield* kept("nothing to see"), "nothing to see")
          const { endpoint, secret } = yield* admin.notification_endpoints.create({
            payload: { url: "http://127.0.0.1:9/hook" }
          })
          const coded = secret.slice("whsec_".length)
          assert.strictEqual(yield* kept(`x ${secret} y`), "x [REDACTED] y")
          assert.strictEqual(yield* kept(`only ${coded} of it`), "only [REDACTED] of it")
          assert.strictEqual(yield* kept(Buffer.from(coded).toString("base64")), "[REDACTED]")
          assert.strictEqual(yield* kept(`${coded.slice(0, 20)}\r\n  ${coded.slice(20)}`), "[REDACTED]")
          assert.strictEqual(yield* kept([...coded].join("\u200b")), "[REDACTED]")
          const renewed = yield* admin.notification_endpoints.rotate_secret({ params: { id: endpoint.id } })
          const newer = renewed.secret.slice("whsec_".length)
          assert.strictEqual(yield* kept(`${coded} ${newer}`), "[REDACTED] [REDACTED]")

          const header = "Basil-the-third-likes-marmalade"
          yield* admin.telemetry_destinations.create({
            payload: { url: "http://127.0.0.1:9/v1/traces", headers: { authorization: `Bearer ${header}` } }
          })
          assert.strictEqual(
            yield* kept(`it is ${header}, or Bearer ${header}`),
            "it is [REDACTED], or [REDACTED]"
          )

          const provider = "Aunt-Agatha-keeps-bees-in-the-attic"
          const keep = (api_key: string) =>
            admin.tasks.create({
              payload: {
                ...sortingTask,
                provider: {
                  kind: "openai",
                  base_url: "http://127.0.0.1:9/v1",
                  model: "m",
                  api_key: Redacted.make(api_key)
                }
              }
            })
          yield* keep(provider)
          assert.strictEqual(yield* kept(`see ${provider}!`), "see [REDACTED]!")
          // As if another process, whose clock is ahead, had written it.
          const sql = yield* SqlClient.SqlClient
          yield* sql`UPDATE provider_keys SET updated_at = updated_at + interval '1 hour'`
          assert.strictEqual(yield* kept("nothing new"), "nothing new")
          const later = "Uncle-Albert-keeps-a-lizard-in-the-cellar"
          yield* keep(later)
          assert.strictEqual(yield* kept(`see ${later}!`), "see [REDACTED]!")
          const key = Redacted.value(yield* (yield* Countersign).key({}, "own secrets"))
          assert.strictEqual(yield* kept(`key ${key}`), "key [REDACTED]")
          const stranger = yield* notes("not own secrets")
          const other = yield* stranger.integration.feedback.create({
            payload: { inference_log_id: stranger.trace_id, score: -1, correction: { note: provider } }
          })
          assert.deepStrictEqual(other.correction, { note: provider })
        })
    )

    it.effect("and one that is too large to be searched is not kept: 413, with the field", () =>
      Effect.gen(function* () {
        const { integration, trace_id } = yield* notes("searched whole")
        const give = (length: number) =>
          integration.feedback.create({
            payload: { inference_log_id: trace_id, score: -1, correction: { note: "a ".repeat(length / 2) } }
          })
        assert.isUndefined((yield* give(262_144)).redaction_warning)
        const refused = yield* Effect.flip(give(262_146))
        assert.strictEqual(refused._tag, "PAYLOAD_TOO_LARGE")
        assert.deepStrictEqual("errors" in refused ? refused.errors?.map(({ pointer }) => pointer) : [], [
          "#/correction/note"
        ])
      })
    )

    it.effect("and refused where it fits only with the value that was removed: the field is named", () =>
      Effect.gen(function* () {
        const { integration, trace_id } = yield* notes("unsafe")
        const key = Redacted.value(yield* (yield* Countersign).key({}, "unsafe"))
        const refused = yield* Effect.flip(
          integration.feedback.create({
            payload: { inference_log_id: trace_id, score: -1, correction: { note: "a", code: key } }
          })
        )
        assert.strictEqual(refused._tag, "CORRECTION_NEEDS_SAFE_VALUE")
        if (refused._tag === "CORRECTION_NEEDS_SAFE_VALUE") {
          assert.strictEqual(refused.status, 422)
          assert.strictEqual(refused.errors?.[0]?.pointer, "#/correction/code")
          assert.notInclude(JSON.stringify(refused), key)
        }
        assert.lengthOf((yield* integration.feedback.list({})).feedback, 0)
      })
    )

    it.effect("and no problem shows one, not even as the name of a field that is too many", () =>
      Effect.gen(function* () {
        const { correct, run } = yield* desk("shown")
        const key = Redacted.value(yield* (yield* Countersign).key({}, "shown"))
        const refused = yield* Effect.flip(correct(yield* run("a"), { category: "other", [key]: 1 }))
        assert.strictEqual(refused._tag, "INVALID_CORRECTION")
        assert.notInclude(JSON.stringify(refused), key)
        if (refused._tag === "INVALID_CORRECTION")
          assert.strictEqual(refused.errors?.[0]?.pointer, "#/correction/%5BREDACTED%5D")
      })
    )

    it.effect(
      "and bounded: 4 MiB are searched with pauses, and what cannot be searched is refused with its place",
      () =>
        Effect.gen(function* () {
          const { integration, trace_id } = yield* notes("large")
          const create = (correction: JsonObject) =>
            integration.feedback.create({ payload: { inference_log_id: trace_id, score: -1, correction } })
          const pages = Array.from(
            { length: 30 },
            (_, page) => `page ${page}: ${"the quick brown fox ".repeat(6_000)}`
          )
          const large = yield* create({ note: "password: hunter2", pages })
          assert.strictEqual(large.redaction_warning, "Protected values were removed from #/correction/note")
          const long = yield* Effect.flip(create({ note: "a".repeat(300_000) }))
          assert.strictEqual(long._tag, "PAYLOAD_TOO_LARGE")
          if (long._tag === "PAYLOAD_TOO_LARGE")
            assert.strictEqual(long.errors?.[0]?.pointer, "#/correction/note")
          const many = yield* Effect.flip(
            create({ note: "a", list: Array.from({ length: 100_001 }, () => 1) })
          )
          assert.strictEqual(many._tag, "PAYLOAD_TOO_LARGE")
          const key = yield* (yield* Countersign).key({}, "large")
          const body = `{"inference_log_id":"${trace_id}","score":1,"correction":{"note":"${"x".repeat(4 * 2 ** 20)}"}}`
          const over = yield* send("/v1/feedback", { method: "POST", key, body })
          assert.strictEqual(over.status, 413)
        })
    )
  }
)
