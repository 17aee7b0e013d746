import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeOnOwnConnection } from "../../../src/server/store/makeOnOwnConnection.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** The key of the advisory lock that the writes of these tests wait for. */
const LOCK = 1_616

const decodeCount = Schema.decodeUnknownEffect(Schema.Tuple([Schema.Struct({ waiting: Schema.Int })]))

layer(TestDatabase.layerSql, { excludeTestServices: true })("makeOnOwnConnection", (it) => {
  it.effect("two writes wait at the same time, and a read does not wait behind them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const holder = yield* sql.reserve
      const write = makeOnOwnConnection(sql, 2)(sql`SELECT pg_advisory_xact_lock(${LOCK})::text`)
      // A lock of the transaction: through a pooler, sessions have none.
      yield* holder.execute("BEGIN", [], undefined)
      yield* holder.execute("SELECT pg_advisory_xact_lock($1)::text", [LOCK], undefined)
      const writes = yield* Effect.all([Effect.forkChild(write), Effect.forkChild(write)])
      const waiting = Effect.flatMap(
        holder.execute(
          "SELECT count(*)::int AS waiting FROM pg_locks WHERE locktype = 'advisory' AND objid::int = $1 AND NOT granted",
          [LOCK],
          undefined
        ),
        decodeCount
      )
      yield* Effect.repeat(waiting, { until: ([count]) => count.waiting === 2 })

      yield* sql`SELECT 1`
      assert.deepStrictEqual(
        writes.map((fiber) => fiber.pollUnsafe()),
        [undefined, undefined]
      )

      yield* holder.execute("COMMIT", [], undefined)
      yield* Fiber.joinAll(writes)
    }).pipe(Effect.scoped)
  )

  it.effect("in an open transaction a write uses the connection of the transaction", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pid = sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
      const [own, other] = yield* transaction(Effect.all([makeOnOwnConnection(sql, 1)(pid), pid]))
      assert.deepStrictEqual(own, other)
    })
  )

  it.effect("a write beyond the limit runs on a shared connection and does not wait for those below it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const onOwnConnection = makeOnOwnConnection(sql, 1)
      const first = yield* Deferred.make<void>()
      const last = yield* Deferred.make<void>()
      const writing = yield* Effect.forkChild(
        onOwnConnection(Effect.andThen(Deferred.succeed(first, undefined), Deferred.await(last)))
      )
      yield* Deferred.await(first)
      yield* onOwnConnection(sql`SELECT 1`)
      assert.isUndefined(writing.pollUnsafe())
      yield* Deferred.succeed(last, undefined)
      yield* Fiber.join(writing)
    })
  )
})
