import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { KeyId } from "../../../../src/domain/Ids.ts"
import { Organizations } from "../../../../src/server/identity/Organizations.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { beginVersion } from "../../../../src/server/tasks/Datasets/beginVersion.ts"
import { service } from "../../../support/service.ts"
import { createTeamClients, sortingTask } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("beginVersion", (it) => {
  it.effect("other requests get turns while long examples are prepared", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("long examples")
      const { id } = yield* admin.tasks.create({ payload: sortingTask })
      const org_id = yield* (yield* Organizations).findByName("long examples")
      const sql = yield* SqlClient.SqlClient
      let turns = 0
      yield* Effect.forkChild(
        Effect.forever(
          Effect.andThen(
            Effect.yieldNow,
            Effect.sync(() => turns++)
          )
        )
      )
      /** The turn in which each example was prepared. All of them fit one batch. */
      const preparedAt = new Set<number>()
      const put = Effect.gen(function* () {
        const version = yield* beginVersion(sql, {
          org_id,
          task_id: id,
          base: null,
          by: { id: yield* KeyId.generate, name: "admin" },
          now: DateTime.makeUnsafe(0)
        })
        for (let n = 0; n < 20; n++) {
          const text = `${n} ${"word ".repeat(13_000)}`
          yield* version.put({
            input: { text },
            answer: { category: "other" },
            source_feedback_id: null,
            origin: "made"
          })
          preparedAt.add(turns)
        }
        return yield* version.finish
      })
      const derived = yield* Effect.provideService(transaction(put), SqlClient.SqlClient, sql)
      assert.strictEqual(derived?.dataset.example_count, 20)
      assert.isAbove(preparedAt.size, 2)
    })
  )
})
