import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Redacted } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { createServer } from "node:net"
import * as Database from "../../../../src/server/store/Database.ts"
import { isDatabaseUnavailable } from "../../../../src/server/store/databaseErrors.ts"
import { atomic, transaction } from "../../../../src/server/store/transaction.ts"
import { eventually } from "../../../support/eventually.ts"
import { listenOnFreePort } from "../../../support/listenOnFreePort.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { startSilentProxy } from "../../../support/silentProxy.ts"

/** A transaction may pause for as long. */
const STATEMENT_TIMEOUT_MILLIS = 500

/** The longest time that the locks of a lost transaction are kept on a busy machine, in milliseconds. */
const RELEASE_MILLIS = 10_000

layer(TestDatabase.layerSql, { excludeTestServices: true })("a transaction whose client is lost", (it) => {
  const lock = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT FROM locked_rows FOR UPDATE`)

  /** Whether another transaction can lock the row. */
  const isFree = Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(sql`SELECT FROM locked_rows FOR UPDATE SKIP LOCKED`, (rows) => rows.length === 1)
  )

  const createTable = Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`CREATE TABLE IF NOT EXISTS locked_rows AS SELECT 1 AS id`
  )

  it.effect("the server ends it after a pause, and its row locks with it", () =>
    Effect.gen(function* () {
      yield* createTable
      const proxy = yield* startSilentProxy((yield* TestDatabase).url)
      const client = yield* Layer.build(
        // So long that the transaction has not ended before the first look at its lock.
        Layer.fresh(Database.layer({ url: proxy.url, statementTimeoutMillis: 4 * STATEMENT_TIMEOUT_MILLIS }))
      )
      const locked = yield* Deferred.make<void>()
      yield* Effect.forkScoped(
        transaction(
          lock.pipe(Effect.andThen(Deferred.succeed(locked, undefined)), Effect.andThen(Effect.never))
        ).pipe(Effect.provideContext(client))
      )
      yield* Deferred.await(locked)
      proxy.forgetConnections()
      assert.isFalse(yield* isFree)
      const began = performance.now()
      yield* eventually(isFree, Boolean)
      assert.isAtMost(performance.now() - began, RELEASE_MILLIS)
    }).pipe(Effect.scoped)
  )

  it.effect("the request of a process that was suspended during its transaction may be repeated", () =>
    Effect.gen(function* () {
      yield* createTable
      const { url } = yield* TestDatabase
      const error = yield* transaction(
        lock.pipe(Effect.andThen(Effect.sleep(4 * STATEMENT_TIMEOUT_MILLIS)), Effect.andThen(lock))
      ).pipe(
        Effect.provide(Database.layer({ url, statementTimeoutMillis: STATEMENT_TIMEOUT_MILLIS })),
        Effect.flip
      )
      assert.isTrue(SqlError.isSqlError(error) && isDatabaseUnavailable(error), String(error))
    })
  )

  it.effect("a dedicated pool's transaction that pauses is ended by the server too", () =>
    Effect.gen(function* () {
      yield* createTable
      const built = yield* Layer.build(Layer.fresh(Database.layerDedicatedPool(1)))
      const pausing = yield* Effect.forkChild(
        atomic(Context.get(built, SqlClient.SqlClient))(
          Effect.andThen(Effect.provideContext(lock, built), Effect.sleep("1 hour"))
        )
      )
      yield* eventually(isFree, (free) => !free)
      yield* eventually(isFree, Boolean)
      yield* Fiber.interrupt(pausing)
      assert.isTrue(Exit.isFailure(yield* Fiber.await(pausing)))
    })
  )
})

describe("an idle session whose client is lost", () => {
  it.live("the server is asked to end it within half a minute", () =>
    Effect.gen(function* () {
      const received = Promise.withResolvers<string>()
      const server = createServer((socket) => {
        socket.once("data", (data) => {
          received.resolve(String(data))
          socket.destroy()
        })
      })
      const port = yield* Effect.promise(() => listenOnFreePort(server))
      const url = Redacted.make(`postgres://user@127.0.0.1:${port}/database`)
      yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1`).pipe(
        Effect.provide(Database.layer({ url })),
        Effect.exit
      )
      const parameters = (yield* Effect.promise(() => received.promise)).slice(8).split("\0")
      const valueOf = (name: string) => Number(parameters[parameters.indexOf(name) + 1])
      const seconds =
        valueOf("tcp_keepalives_idle") + valueOf("tcp_keepalives_interval") * valueOf("tcp_keepalives_count")
      assert.isAtMost(seconds, 30)
      server.close()
    })
  )
})
