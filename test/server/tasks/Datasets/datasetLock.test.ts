import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId, TaskId } from "../../../../src/domain/Ids.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { acquireDatasetLock, awaitDatasetLock } from "../../../../src/server/tasks/Datasets/datasetLock.ts"
import { waitForStatementBlockedFor } from "../../../support/eventually.ts"
import { TestDatabase } from "../../../support/postgres.ts"

/** The server cancels a statement after this, and a silent connection is closed two seconds later. */
const STATEMENT_TIMEOUT_MILLIS = 300

const layerDatabase = Layer.unwrap(
  Effect.map(TestDatabase, ({ url }) =>
    Layer.orDie(Database.layer({ url, statementTimeoutMillis: STATEMENT_TIMEOUT_MILLIS }))
  )
).pipe(Layer.provide(TestDatabase.layer))

layer(layerDatabase, { excludeTestServices: true })("datasetLock", (it) => {
  it.effect("an operator's command waits for the lock longer than any timeout of requests", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* OrgId.generate
      const task_id = yield* TaskId.generate
      const acquired = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(
        transaction(
          sql`SET LOCAL idle_in_transaction_session_timeout = 0`.pipe(
            Effect.andThen(acquireDatasetLock(sql, org_id, task_id)),
            Effect.andThen(Deferred.succeed(acquired, undefined)),
            Effect.andThen(Deferred.await(release))
          )
        )
      )
      yield* Deferred.await(acquired)
      const second = yield* Effect.forkChild(
        transaction(
          Effect.andThen(
            awaitDatasetLock(sql, org_id, task_id),
            sql`SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock`
          )
        )
      )
      const waited = waitForStatementBlockedFor(STATEMENT_TIMEOUT_MILLIS + 3_000)
      yield* Effect.raceFirst(waited, Effect.andThen(Fiber.join(second), Effect.never))
      yield* Deferred.succeed(release, undefined)
      yield* Fiber.join(first)
      assert.deepStrictEqual(yield* Fiber.join(second), [{ statement: "300ms", lock: "2s" }])
    })
  )
})
