import type { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Queue, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { makePgNotify } from "../../../../src/server/store/PgNotify.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { NoResponseDeadline } from "../../../../src/server/store/Database/ResponseDeadline.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { type SilentProxy, startSilentProxy } from "../../../support/silentProxy.ts"

/** A connection is closed after this and two more seconds of silence. */
const STATEMENT_TIMEOUT_MILLIS = 500
const DEADLINE_MILLIS = STATEMENT_TIMEOUT_MILLIS + 2_000

const MAX_CONNECTIONS = 3

/** Runs a test on a client whose connections can be lost without a word. */
const throughProxy = <A, E>(
  test: (proxy: SilentProxy) => Effect.Effect<A, E, PgClient.PgClient | SqlClient.SqlClient>
) =>
  Effect.gen(function* () {
    const proxy = yield* startSilentProxy((yield* TestDatabase).url)
    return yield* test(proxy).pipe(
      Effect.provide(
        Database.layer({
          url: proxy.url,
          statementTimeoutMillis: STATEMENT_TIMEOUT_MILLIS,
          maxConnections: MAX_CONNECTIONS
        })
      )
    )
  }).pipe(Effect.scoped, Effect.provide(TestDatabase.layer))

const select = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 AS one`)

/** When a statement failed on a connection of its own. */
const failedAt = <A>(statement: Effect.Effect<A, SqlError.SqlError, SqlClient.SqlClient>) =>
  Effect.map(Effect.flip(transaction(statement)), () => performance.now())

/** Runs one statement on every connection of the pool: each transaction reserves one, and none ends before all have begun. */
const useEveryConnection = Effect.gen(function* () {
  const barrier = Latch.makeUnsafe(false)
  let begun = 0
  const one = Effect.gen(function* () {
    yield* select
    if (++begun === MAX_CONNECTIONS) barrier.openUnsafe()
    yield* barrier.await
  })
  yield* Effect.all(
    Array.from({ length: MAX_CONNECTIONS }, () => transaction(one)),
    { concurrency: MAX_CONNECTIONS, discard: true }
  )
})

describe("a connection that dies without a FIN or RST", () => {
  it.live("its statement fails within the deadline, and later ones use new connections", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        yield* useEveryConnection
        const before = proxy.opened()
        proxy.forgetConnections()
        const failure = yield* Effect.flip(select).pipe(Effect.timeout(2 * DEADLINE_MILLIS))
        assert.strictEqual(failure.reason._tag, "ConnectionError")
        // The unused connections were closed together with the one that was waited for: no statement waits for a deadline again. It may
        // still meet a connection as it closes.
        yield* Effect.all(
          Array.from({ length: MAX_CONNECTIONS }, () =>
            Effect.retry(transaction(select), Schedule.recurs(MAX_CONNECTIONS))
          ),
          { concurrency: MAX_CONNECTIONS, discard: true }
        ).pipe(Effect.timeout(DEADLINE_MILLIS))
        assert.isAbove(proxy.opened(), before)
      })
    )
  )

  it.live("statements that were sent later on other lost connections fail with the first", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* useEveryConnection
        // It lasts longer than the test, so that the server does not respond before the loss however slow the machine is.
        const slow = Effect.andThen(sql`SET LOCAL statement_timeout = 0`, sql`SELECT pg_sleep(30)`)
        const first = yield* Effect.forkChild(failedAt(slow), { startImmediately: true })
        // Another connection responds after the first statement was sent, and before the loss.
        yield* Effect.repeat(
          transaction(
            sql`SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'`
          ),
          { until: (rows) => rows.length === 1 }
        )
        proxy.forgetConnections()
        yield* Effect.sleep(0.7 * DEADLINE_MILLIS)
        const second = yield* failedAt(select)
        assert.isBelow(second - (yield* Fiber.join(first)), DEADLINE_MILLIS / 2)
      })
    )
  )

  it.live("the first statement of a connection that was open before the loss fails with the others", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // Two connections, of which one has run a statement.
        yield* Effect.scoped(
          Effect.andThen(sql.reserve, (used) =>
            Effect.andThen(used.execute("SELECT 1", [], undefined), sql.reserve)
          )
        )
        assert.strictEqual(proxy.opened(), 2)
        proxy.forgetConnections()
        const first = yield* Effect.forkChild(failedAt(select), { startImmediately: true })
        yield* Effect.sleep(0.7 * DEADLINE_MILLIS)
        const second = yield* failedAt(select)
        assert.isBelow(second - (yield* Fiber.join(first)), DEADLINE_MILLIS / 2)
      })
    )
  )

  it.live("a connection on which the server responds meanwhile is not closed with it", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* select
        proxy.forgetConnections()
        const lost = yield* Effect.forkChild(Effect.flip(transaction(select)), { startImmediately: true })
        const isLost = Effect.sync(() => lost.pollUnsafe() !== undefined)
        yield* transaction(Effect.repeat(sql`SELECT pg_sleep(0.3)`, { until: () => isLost }))
      })
    )
  )

  it.live("a transaction on it fails within the deadline", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        const failure = yield* Effect.flip(
          transaction(
            Effect.gen(function* () {
              yield* select
              proxy.forgetConnections()
              yield* select
            })
          )
        )
        assert.strictEqual(failure._tag, "SqlError")
        yield* transaction(select)
      })
    )
  )

  it.live("it is closed although every statement on it is interrupted before the deadline", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        yield* select
        proxy.forgetConnections()
        yield* select.pipe(Effect.timeout("500 millis"), Effect.retry(Schedule.recurs(60)))
      })
    )
  )

  it.live("a listener listens again on a new connection", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        const channel = yield* makePgNotify("countersign_test")
        const received = yield* Queue.unbounded<string | undefined>()
        yield* Effect.forkScoped(channel.listen((payload) => Effect.asVoid(Queue.offer(received, payload))))
        assert.strictEqual(yield* Queue.take(received), undefined)
        proxy.forgetConnections()
        assert.strictEqual(yield* Queue.take(received), undefined)
        yield* channel.notify(["after"])
        assert.strictEqual(yield* Queue.take(received), "after")
      }).pipe(Effect.scoped)
    )
  )
})

describe("a connection that lives", () => {
  it.live("a statement without a deadline may take longer than it", () =>
    throughProxy(() =>
      transaction(
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* sql`SET LOCAL statement_timeout = 0`
          const rows = yield* sql`SELECT pg_sleep(4) IS NOT NULL AS slept`
          assert.lengthOf(rows, 1)
        }).pipe(Effect.provideService(NoResponseDeadline, true))
      )
    )
  )

  it.live("an unused connection stays open, and interrupted statements do not close it", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* select
        const before = proxy.opened()
        yield* Effect.timeoutOption(sql`SELECT pg_sleep(0.4)`, "100 millis")
        yield* Effect.sleep("4 seconds")
        yield* select
        assert.strictEqual(proxy.opened(), before)
      })
    )
  )

  it.live("a pause of the whole process does not close it", () =>
    throughProxy((proxy) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* select
        const before = proxy.opened()
        const slow = yield* Effect.forkChild(sql`SELECT pg_sleep(0.3) IS NOT NULL AS slept`)
        yield* Effect.sleep("100 millis")
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000)
        assert.lengthOf(yield* Fiber.join(slow), 1)
        assert.strictEqual(proxy.opened(), before)
      })
    )
  )
})
