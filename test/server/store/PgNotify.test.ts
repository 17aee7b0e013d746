import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Latch, Layer, Queue } from "effect"
import { makePgNotify } from "../../../src/server/store/PgNotify.ts"
import { TestDatabase } from "../../support/postgres.ts"

describe("PgNotify", () => {
  it.live("a listener receives a burst of payloads, and undefined after each reconnect", () =>
    Effect.gen(function* () {
      const pg = yield* PgClient.PgClient
      const channel = yield* makePgNotify("countersign_test")
      const received = yield* Queue.unbounded<string | undefined>()
      yield* Effect.forkScoped(channel.listen((payload) => Effect.asVoid(Queue.offer(received, payload))))
      assert.strictEqual(yield* Queue.take(received), undefined)

      const due = Latch.makeUnsafe(false)
      const pending = ["one"]
      const batchSizes: Array<number> = []
      yield* Effect.forkScoped(
        channel.notifyDebounced(due, "10 millis", () => {
          batchSizes.push(pending.length)
          return pending.splice(0)
        })
      )
      due.openUnsafe()
      pending.push("two")
      due.openUnsafe()
      assert.deepStrictEqual(yield* Queue.takeN(received, 2), ["one", "two"])
      assert.deepStrictEqual(batchSizes, [2])

      yield* pg`
        SELECT pg_terminate_backend(pid)
        FROM pg_stat_activity
        WHERE datname = current_database()
          AND pid <> pg_backend_pid()
          AND query LIKE 'LISTEN%'
      `
      assert.strictEqual(yield* Queue.take(received), undefined)
      yield* channel.notify(["three"])
      assert.strictEqual(yield* Queue.take(received), "three")
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(TestDatabase.layerSql)))
  )
})
