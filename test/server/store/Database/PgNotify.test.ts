import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Latch, Layer, Queue } from "effect"
import { makePgNotify } from "../../../../src/server/store/Database/PgNotify.ts"
import { TestDatabase } from "../../../support/postgres.ts"

describe("notices", () => {
  it.live("are heard with what is told meanwhile in one burst, and say when some may have been missed", () =>
    Effect.gen(function* () {
      const pg = yield* PgClient.PgClient
      const notices = yield* makePgNotify("countersign_test")
      const heard = yield* Queue.unbounded<string | undefined>()
      yield* Effect.forkScoped(notices.listen((payload) => Effect.asVoid(Queue.offer(heard, payload))))
      assert.strictEqual(yield* Queue.take(heard), undefined)

      const due = Latch.makeUnsafe(false)
      const pending = ["one"]
      const told: Array<number> = []
      yield* Effect.forkScoped(
        notices.notifyDebounced(due, "10 millis", () => {
          told.push(pending.length)
          return pending.splice(0)
        })
      )
      due.openUnsafe()
      pending.push("two")
      due.openUnsafe()
      assert.deepStrictEqual(yield* Queue.takeN(heard, 2), ["one", "two"])
      assert.deepStrictEqual(told, [2])

      yield* pg`
        SELECT pg_terminate_backend(pid)
        FROM pg_stat_activity
        WHERE datname = current_database()
          AND pid <> pg_backend_pid()
          AND query LIKE 'LISTEN%'
      `
      assert.strictEqual(yield* Queue.take(heard), undefined)
      yield* notices.notify(["three"])
      assert.strictEqual(yield* Queue.take(heard), "three")
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(TestDatabase.layerSql)))
  )
})
