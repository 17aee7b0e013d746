import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Latch, Layer, Logger, Queue } from "effect"
import { SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
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

      yield* channel.notify(["one", "two"])
      assert.deepStrictEqual(yield* Queue.takeN(received, 2), ["one", "two"])

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

  it.effect(
    "the first payload after a pause is sent at once, and further ones together after the interval",
    () =>
      Effect.gen(function* () {
        const channel = yield* makePgNotify("countersign_test")
        const received = yield* Queue.unbounded<string | undefined>()
        yield* Effect.forkScoped(channel.listen((payload) => Effect.asVoid(Queue.offer(received, payload))))
        assert.strictEqual(yield* Queue.take(received), undefined)
        const due = Latch.makeUnsafe(false)
        const pending: Array<string> = []
        const batches: Array<ReadonlyArray<string>> = []
        const takeAll = () => {
          batches.push([...pending])
          return pending.splice(0)
        }
        yield* Effect.forkScoped(channel.notifyThrottled(due, "20 millis", takeAll))
        const send = (payload: string) => {
          pending.push(payload)
          due.openUnsafe()
        }
        yield* TestClock.adjust("20 millis")
        send("one")
        assert.strictEqual(yield* Queue.take(received), "one")
        send("two")
        send("three")
        assert.deepStrictEqual(batches, [["one"]])
        // The interval begins when the database has answered the notification, which the test does not see.
        const passTime = Effect.andThen(
          TestClock.adjust("20 millis"),
          TestClock.withLive(Effect.sleep("5 millis"))
        )
        yield* Effect.raceFirst(Queue.takeN(received, 2), Effect.forever(passTime))
        assert.deepStrictEqual(batches, [["one"], ["two", "three"]])
      }).pipe(Effect.scoped, Effect.provide(Layer.fresh(TestDatabase.layerSql)))
  )

  it.effect("a server that refuses LISTEN is asked ever more rarely, and that is logged once", () =>
    Effect.gen(function* () {
      const pg = yield* PgClient.PgClient
      const refused = new SqlError.SqlError({
        reason: new SqlError.SqlSyntaxError({
          cause: Object.assign(new Error("LISTEN is not supported"), { code: "0A000" }),
          operation: "listen"
        })
      })
      let attempts = 0
      let refuses = true
      const client = Object.assign(pg, {
        listen: (): Effect.Effect<never, SqlError.SqlError> =>
          Effect.suspend(() => {
            attempts++
            return refuses ? Effect.fail(refused) : Effect.never
          })
      })
      const log: Array<string> = []
      const collector = Logger.make<unknown, void>(({ logLevel, message }) => {
        if (logLevel === "Warn") log.push(String(message))
      })
      const channel = yield* Effect.provideService(
        makePgNotify("countersign_test"),
        PgClient.PgClient,
        client
      )
      yield* Effect.forkScoped(
        Effect.provide(
          channel.listen(() => Effect.void),
          Logger.layer([collector])
        )
      )
      yield* TestClock.adjust("5 minutes")
      assert.isBelow(attempts, 15)
      assert.lengthOf(log, 1)
      refuses = false
      const before = attempts
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(attempts, before + 1)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(TestDatabase.layerSql)))
  )
})
