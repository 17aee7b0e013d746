import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { createDesk } from "../../../support/feedback.ts"
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
})
