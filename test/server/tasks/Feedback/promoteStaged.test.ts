import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { DatasetId, FeedbackId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { createDesk, tagOf } from "../../../support/feedback.ts"
import { send, service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("promoteStaged", (it) => {
  it.effect("a promotion creates the version that was previewed, and each correction names the version", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage, task } = yield* createDesk("promote")
      const known = yield* run("where is my parcel")
      const fresh = yield* run("refund me")
      const first = yield* stage((yield* correct(known, { category: "billing" })).id)
      const second = yield* stage((yield* correct(known, { category: "other" })).id)
      const third = yield* stage((yield* correct(fresh, { category: "billing" })).id)
      const rejected = yield* correct(fresh, { category: "shipping" })
      yield* reviewer.feedback.reject({ params: { id: rejected.id }, payload: {} })

      const preview = yield* reviewer.feedback.previewPromotion({ params })
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
        example_count: 2,
        correction_count: 2,
        superseded_count: 1,
        next_cursor: null
      })
      assert.deepStrictEqual(yield* admin.feedback.previewPromotion({ params }), preview)

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
      const { examples } = yield* admin.datasets.listExamples({ params: { id: made.id } })
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

      // The live release and the old version are unchanged.
      assert.strictEqual((yield* admin.tasks.get({ params })).live_release_id, task.live_release_id)
      assert.lengthOf((yield* admin.datasets.listExamples({ params: { id: dataset.id } })).examples, 1)
      const { entries } = yield* admin.auditLog.list({ query: { action: "feedback.promoted" } })
      assert.deepStrictEqual(
        entries.map(({ detail, target_id }) => ({ detail, target_id })),
        [{ target_id: made.id, detail: { task_id: task.id, promoted: 2, superseded: 1 } }]
      )
      assert.deepInclude(yield* admin.feedback.previewPromotion({ params }), {
        base_dataset_id: made.id,
        feedback_revision,
        corrections: [],
        superseded: []
      })
    })
  )

  it.effect("the first promotion of a task without a dataset creates its first version", () =>
    Effect.gen(function* () {
      const { admin, integration, reviewer } = yield* createDesk("first version")
      const task = yield* admin.tasks.create({ payload: sortingTask })
      const params = { id: task.id }
      const { trace_id } = yield* admin.tasks.run({
        params,
        payload: { input: { text: "hi" }, answer: { category: "other" } }
      })
      const { id } = yield* integration.feedback.create({
        payload: { inference_log_id: trace_id, score: -1, correction: { category: "billing" } }
      })
      yield* reviewer.feedback.stage({ params: { id } })
      const preview = yield* reviewer.feedback.previewPromotion({ params })
      assert.isNull(preview.base_dataset_id)
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: null, expected_feedback_revision: preview.feedback_revision }
      })
      assert.deepInclude(dataset, { version: 1, base_dataset_id: null, example_count: 1 })
    })
  )

  it.effect(
    "of two corrections of runs with the same input, the one staged last is promoted and the other superseded",
    () =>
      Effect.gen(function* () {
        const { admin, integration, reviewer } = yield* createDesk("equal inputs")
        const task = yield* admin.tasks.create({ payload: sortingTask })
        const params = { id: task.id }
        const input = { text: "hi" }
        const corrected = Effect.fnUntraced(function* (category: string) {
          const run = yield* admin.tasks.run({ params, payload: { input, answer: { category: "other" } } })
          const payload = { inference_log_id: run.trace_id, score: -1, correction: { category } } as const
          return (yield* integration.feedback.create({ payload })).id
        })
        const earlier = yield* corrected("billing")
        const later = yield* corrected("shipping")
        for (const id of [earlier, later]) yield* reviewer.feedback.stage({ params: { id } })
        const { feedback_revision, ...preview } = yield* reviewer.feedback.previewPromotion({ params })
        assert.deepInclude(preview, {
          correction_count: 1,
          superseded: [{ id: earlier, superseded_by: later }],
          examples_added: 1,
          examples_replaced: 0,
          example_count: 1
        })
        const { dataset, promoted } = yield* admin.feedback.promote({
          params,
          payload: { base_dataset_id: null, expected_feedback_revision: feedback_revision }
        })
        assert.strictEqual(dataset.example_count, 1)
        assert.deepStrictEqual(promoted, [later])
        assert.strictEqual((yield* admin.feedback.get({ params: { id: earlier } })).status, "superseded")
        const { answer } = yield* admin.tasks.run({ params, payload: { input } })
        assert.deepStrictEqual(answer, { category: "shipping" })
        const { examples } = yield* admin.datasets.listExamples({ params: { id: dataset.id } })
        assert.deepStrictEqual(
          examples.map(({ source_feedback_id }) => source_feedback_id),
          [later]
        )
      })
  )

  it.effect("inputs that differ in a secret alone are one input, in the preview too", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage } =
        yield* createDesk("equal when redacted")
      const token = (letter: string) => `use ghp_16C7e42F292c6912E7710c838347Ae178B4${letter}`
      const earlier = yield* stage((yield* correct(yield* run(token("a")), { category: "billing" })).id)
      const later = yield* stage((yield* correct(yield* run(token("b")), { category: "shipping" })).id)
      const preview = yield* reviewer.feedback.previewPromotion({ params })
      assert.deepInclude(preview, {
        superseded: [{ id: earlier.id, superseded_by: later.id }],
        examples_added: 1,
        example_count: 2
      })
      const promotion = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: dataset.id, expected_feedback_revision: preview.feedback_revision }
      })
      assert.strictEqual(promotion.dataset.example_count, 2)
      const again = yield* stage((yield* correct(yield* run(token("c")), { category: "other" })).id)
      const next = yield* reviewer.feedback.previewPromotion({ params })
      assert.deepInclude(next, { examples_added: 0, examples_replaced: 1, example_count: 2 })
      const { dataset: made, promoted } = yield* admin.feedback.promote({
        params,
        payload: {
          base_dataset_id: promotion.dataset.id,
          expected_feedback_revision: next.feedback_revision
        }
      })
      assert.strictEqual(made.example_count, 2)
      assert.deepStrictEqual(promoted, [again.id])
    })
  )

  it.effect(
    "of corrections whose inputs a newly added secret makes equal, the one staged last is promoted",
    () =>
      Effect.gen(function* () {
        const { admin, correct, dataset, params, run, stage } = yield* createDesk("newly redacted")
        const earlier = yield* stage(
          (yield* correct(yield* run("pay with ABC-111"), { category: "billing" })).id
        )
        const later = yield* stage((yield* correct(yield* run("pay with ABC-222"), { category: "other" })).id)
        yield* admin.redactionSettings.replace({
          payload: { patterns: [{ name: "code", pattern: "ABC-[0-9]+" }] }
        })
        const { feedback_revision } = yield* admin.feedback.previewPromotion({ params })
        const { dataset: made, promoted } = yield* admin.feedback.promote({
          params,
          payload: { base_dataset_id: dataset.id, expected_feedback_revision: feedback_revision }
        })
        assert.strictEqual(made.example_count, 2)
        assert.deepStrictEqual(promoted, [later.id])
        assert.strictEqual((yield* admin.feedback.get({ params: { id: earlier.id } })).status, "superseded")
      })
  )

  it.effect("some staged corrections are previewed and promoted, and the others stay staged", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage } = yield* createDesk("selection")
      const corrected = Effect.fnUntraced(function* (text: string, category: string) {
        return (yield* stage((yield* correct(yield* run(text), { category })).id)).id
      })
      const one = yield* corrected("one", "billing")
      const two = yield* corrected("two", "billing")
      const newer = yield* corrected("one", "other")
      const all = yield* reviewer.feedback.previewPromotion({ params })
      const preview = yield* reviewer.feedback.previewSelection({ params, payload: { feedback_ids: [one] } })
      assert.deepInclude(preview, {
        correction_count: 1,
        superseded: [],
        examples_added: 1,
        example_count: 2
      })
      assert.notStrictEqual(preview.feedback_revision, all.feedback_revision)
      const promote = (expected_feedback_revision: string, base = dataset.id) =>
        admin.feedback.promote({
          params,
          payload: { base_dataset_id: base, expected_feedback_revision, feedback_ids: [one] }
        })
      assert.strictEqual(yield* tagOf(promote(all.feedback_revision)), "FEEDBACK_CHANGED")
      const { dataset: made, feedback_revision, promoted } = yield* promote(preview.feedback_revision)
      assert.deepStrictEqual(promoted, [one])
      assert.strictEqual(made.example_count, 2)
      const rest = yield* reviewer.feedback.previewPromotion({ params })
      assert.strictEqual(rest.feedback_revision, feedback_revision)
      assert.sameMembers(
        rest.corrections.map(({ id }) => id),
        [two, newer]
      )

      const gone = yield* Effect.flip(promote(preview.feedback_revision, made.id))
      assert.strictEqual(gone._tag, "FEEDBACK_CHANGED")
      if (gone._tag === "FEEDBACK_CHANGED") {
        assert.deepStrictEqual(
          gone.errors?.map(({ pointer }) => pointer),
          ["#/feedback_ids/0"]
        )
      }
      const unknown = yield* Effect.flip(
        reviewer.feedback.previewSelection({ params, payload: { feedback_ids: [two, one] } })
      )
      assert.strictEqual(unknown._tag, "FEEDBACK_CHANGED")
      // Corrections of another task are not staged corrections of this one.
      const other = yield* createDesk("selection elsewhere")
      assert.strictEqual(
        yield* tagOf(
          other.reviewer.feedback.previewSelection({
            params: other.params,
            payload: { feedback_ids: [two] }
          })
        ),
        "FEEDBACK_CHANGED"
      )
    })
  )

  it.effect("a page of a preview with large inputs has fewer corrections", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage } = yield* createDesk("large inputs")
      const ids: Array<string> = []
      for (const letter of ["a", "b", "c"]) {
        // Non-ASCII, so that there are more bytes than characters.
        const trace_id = yield* run(letter.repeat(50) + "é".repeat(60_000))
        ids.push((yield* stage((yield* correct(trace_id, { category: "billing" })).id)).id)
      }
      const preview = yield* reviewer.feedback.previewPromotion({ params })
      assert.lengthOf(preview.corrections, 2)
      const next = yield* reviewer.feedback.previewPromotion({
        params,
        query: { cursor: preview.next_cursor! }
      })
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
    "a promotion fails if the dataset has changed, if the staged set has changed, or if nothing is staged",
    () =>
      Effect.gen(function* () {
        const { admin, correct, dataset, params, run, stage } = yield* createDesk("conflicts")
        const promote = (base_dataset_id: typeof dataset.id | null, expected_feedback_revision: string) =>
          admin.feedback.promote({ params, payload: { base_dataset_id, expected_feedback_revision } })
        const empty = yield* admin.feedback.previewPromotion({ params })
        assert.strictEqual(yield* tagOf(promote(dataset.id, empty.feedback_revision)), "NOTHING_STAGED")

        yield* stage((yield* correct(yield* run("one"), { category: "billing" })).id)
        const old = yield* admin.feedback.previewPromotion({ params })
        yield* stage((yield* correct(yield* run("two"), { category: "billing" })).id)
        const { feedback_revision } = yield* admin.feedback.previewPromotion({ params })
        const stale = yield* Effect.flip(promote(dataset.id, old.feedback_revision))
        assert.strictEqual(stale._tag, "FEEDBACK_CHANGED")
        if (stale._tag === "FEEDBACK_CHANGED") {
          assert.strictEqual(stale.current_dataset_id, dataset.id)
          assert.strictEqual(stale.current_feedback_revision, feedback_revision)
        }
        // If both are outdated, the failure is that of the base.
        const both = yield* Effect.flip(promote(null, old.feedback_revision))
        assert.strictEqual(both._tag, "DATASET_BASE_CHANGED")
        if (both._tag === "DATASET_BASE_CHANGED") {
          assert.strictEqual(both.current_dataset_id, dataset.id)
          assert.strictEqual(both.current_feedback_revision, feedback_revision)
        }
        yield* promote(dataset.id, feedback_revision)
        assert.strictEqual(yield* tagOf(promote(dataset.id, feedback_revision)), "DATASET_BASE_CHANGED")
        const key = yield* (yield* Countersign).key({}, "conflicts")
        for (const body of [
          "{}",
          '{"base_dataset_id":null}',
          `{"base_dataset_id":5,"expected_feedback_revision":"x"}`
        ]) {
          const answer = yield* send(`/v1/tasks/${params.id}/feedback/promote`, {
            method: "POST",
            key,
            body
          })
          assert.strictEqual(answer.status, 400)
        }
      })
  )

  it.effect("of 20 concurrent promotions one succeeds", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, run, stage } = yield* createDesk("racing")
      for (let count = 0; count < 5; count++) {
        yield* stage((yield* correct(yield* run(`text ${count}`), { category: "billing" })).id)
      }
      const { feedback_revision } = yield* admin.feedback.previewPromotion({ params })
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

  it.effect("each correction is promoted exactly once while corrections are staged concurrently", () =>
    Effect.gen(function* () {
      const { admin, correct, params, run, stage } = yield* createDesk("staging on")
      const ids = yield* Effect.forEach(Array.from({ length: 24 }), (_, number) =>
        Effect.flatMap(run(`text ${number}`), (trace_id) =>
          Effect.map(correct(trace_id, { category: "billing" }), ({ id }) => id)
        )
      )
      const staging = yield* Effect.forkChild(Effect.forEach(ids, stage, { discard: true }))
      const versions: Array<{ readonly id: DatasetId; readonly promoted: ReadonlyArray<FeedbackId> }> = []
      /** Behaves like a client: previews, promotes the preview, and starts again after a conflict. */
      const promoter: Effect.Effect<void, unknown> = Effect.gen(function* () {
        while (versions.reduce((sum, { promoted }) => sum + promoted.length, 0) < ids.length) {
          const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({ params })
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

  it.effect("3,001 corrections are previewed in pages and promoted in one version", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, run, stage } = yield* createDesk("thousands")
      const sql = yield* SqlClient.SqlClient
      const { id } = yield* stage((yield* correct(yield* run("first"), { category: "billing" })).id)
      yield* sql`
        INSERT INTO runs
        SELECT (jsonb_populate_record(runs, jsonb_build_object(
          'trace_id', md5(n::text), 'run_id', 'run_' || md5(n::text), 'input', json_build_object('text', 'text ' || n)
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
      const preview = yield* admin.feedback.previewPromotion({ params, query: { limit: 100 } })
      assert.lengthOf(preview.corrections, 100)
      assert.deepInclude(preview, { correction_count: 3001, examples_added: 3001 })
      const next = yield* admin.feedback.previewPromotion({
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
})
