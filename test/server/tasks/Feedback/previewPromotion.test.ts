import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import type { PreviewCursor } from "../../../../src/api/Feedback.ts"
import type { FeedbackId } from "../../../../src/domain/Ids.ts"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { createDesk, tagOf } from "../../../support/feedback.ts"
import { service } from "../../../support/service.ts"
import { sortingExamples } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("previewPromotion", (it) => {
  it.effect("a promotion during a preview is shown whole or not at all", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage, task } = yield* createDesk("preview")
      const sql = yield* SqlClient.SqlClient
      const [example] = sortingExamples(["refund me", "billing"])
      const { id: next } = yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: dataset.id, examples: [example!] }
      })
      // The second version stands for the one that the promotion below creates.
      yield* sql`UPDATE tasks SET dataset_id = ${dataset.id} WHERE task_id = ${task.id}`
      const { id } = yield* stage((yield* correct(yield* run("where is it"), { category: "shipping" })).id)

      const preview = yield* transaction(
        Effect.gen(function* () {
          yield* sql`LOCK TABLE feedback IN ACCESS EXCLUSIVE MODE`
          const previewing = yield* Effect.forkDetach(reviewer.feedback.previewPromotion({ params }))
          // It has read the newest version, and waits for the corrections.
          yield* waitForBlockedStatements(1)
          yield* sql`UPDATE tasks SET dataset_id = ${next} WHERE task_id = ${task.id}`
          yield* sql`UPDATE feedback SET status = 'promoted', dataset_id = ${next} WHERE feedback_id = ${id}`
          return previewing
        })
      ).pipe(Effect.flatMap(Fiber.join))
      assert.strictEqual(preview.base_dataset_id, dataset.id)
      assert.deepStrictEqual(
        preview.corrections.map((correction) => [correction.id, correction.status]),
        [[id, "staged"]]
      )
      assert.strictEqual((yield* reviewer.feedback.previewPromotion({ params })).base_dataset_id, next)
    })
  )

  it.effect(
    "later pages continue the first one, and are refused if a correction of theirs has left since",
    () =>
      Effect.gen(function* () {
        const { admin, correct, params, reviewer, run, stage } = yield* createDesk("pages")
        const ids: Array<FeedbackId> = []
        for (const text of ["one", "two", "three", "four"])
          ids.push((yield* stage((yield* correct(yield* run(text), { category: "shipping" })).id)).id)
        const [, , third] = ids
        const page = (query: { readonly cursor?: PreviewCursor }) =>
          reviewer.feedback.previewPromotion({ params, query: { limit: 1, ...query } })

        const first = yield* page({})
        const later = page({ cursor: first.next_cursor! })
        yield* stage((yield* correct(yield* run("five"), { category: "shipping" })).id)
        // Another reviewer's first page is of another set.
        const other = yield* page({})
        assert.strictEqual(other.correction_count, 5)
        const next = yield* later
        assert.deepStrictEqual(
          next.corrections.map(({ id }) => id),
          [third]
        )
        assert.strictEqual(next.feedback_revision, first.feedback_revision)
        assert.strictEqual(next.correction_count, 4)

        yield* admin.feedback.unstage({ params: { id: third! } })
        assert.strictEqual(yield* tagOf(later), "FEEDBACK_CHANGED")
      })
  )

  it.effect("a page of a selection is refused if a correction of it was staged again since the first", () =>
    Effect.gen(function* () {
      const { correct, params, reviewer, run, stage } = yield* createDesk("pages of a selection")
      const ids = yield* Effect.forEach(["one", "two"], (text) =>
        Effect.flatMap(run(text), (trace_id) => correct(trace_id, { category: "shipping" }))
      )
      const [one, two] = [yield* stage(ids[0]!.id), yield* stage(ids[1]!.id)]
      const page = (query: { readonly cursor?: PreviewCursor }) =>
        reviewer.feedback.previewSelection({
          params,
          query: { limit: 1, ...query },
          payload: { feedback_ids: [one.id, two.id] }
        })
      const first = yield* page({})
      const later = page({ cursor: first.next_cursor! })
      assert.strictEqual((yield* later).feedback_revision, first.feedback_revision)
      yield* reviewer.feedback.unstage({ params: { id: one.id } })
      yield* stage(one.id)
      assert.strictEqual(yield* tagOf(later), "FEEDBACK_CHANGED")
    })
  )

  it.effect("a page after the first reads no other corrections than its own", () =>
    Effect.gen(function* () {
      const { correct, params, reviewer, run, stage } = yield* createDesk("flat pages")
      const sql = yield* SqlClient.SqlClient
      for (const text of ["one", "two", "three"])
        yield* stage((yield* correct(yield* run(text), { category: "shipping" })).id)
      const { next_cursor } = yield* reviewer.feedback.previewPromotion({ params, query: { limit: 1 } })
      // Staged behind the service: a page that reads all of them counts it.
      yield* sql`
        UPDATE feedback SET status = 'rejected'
        WHERE feedback_id = (SELECT min(feedback_id) FROM feedback WHERE task_id = ${params.id} AND status = 'staged')
      `
      const page = yield* reviewer.feedback.previewPromotion({
        params,
        query: { limit: 1, cursor: next_cursor! }
      })
      assert.strictEqual(page.correction_count, 3)
    })
  )
})
