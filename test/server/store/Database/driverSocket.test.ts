import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Duplex } from "node:stream"
import { driverSocket } from "../../../../src/server/store/Database/driverSocket.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import { TestDatabase } from "../../../support/postgres.ts"

describe("driverSocket", () => {
  it("a driver that keeps the socket elsewhere fails with a sentence that names it", () => {
    const socket = new Duplex()
    assert.strictEqual(driverSocket({ session: { socket } }), socket)
    assert.strictEqual(driverSocket({ base: { session: { socket } } }), socket)
    for (const connection of [{}, { session: {} }, { session: { socket: 1 } }, { connection: { socket } }])
      assert.throws(
        () => driverSocket(connection),
        "The installed version of @effect/sql-pg keeps the socket of a connection elsewhere than in `session.socket`, so lost connections could not be closed. Install the version that this package requires."
      )
  })

  it.live("the installed driver has it, for pooled, pipelined and reserved connections", () =>
    Effect.gen(function* () {
      const { url } = yield* TestDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`SELECT 1`
        yield* sql.withTransaction(sql`SELECT 1`)
        yield* Effect.provide(
          Effect.flatMap(SqlClient.SqlClient, (own) => own`SELECT 1`),
          Database.layerDedicatedPool(1)
        )
      }).pipe(Effect.provide(Database.layer({ url })))
    }).pipe(Effect.scoped, Effect.provide(TestDatabase.layer))
  )
})
