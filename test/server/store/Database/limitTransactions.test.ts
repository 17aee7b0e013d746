import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Context, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { CurrentPrincipal } from "../../../../src/api/Authorization.ts"
import { KeyId, OrgId } from "../../../../src/domain/Ids.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import { transactionCounts } from "../../../../src/server/store/Database/limitTransactions.ts"
import { inTurns, LoopTurns, makeLoopTurns } from "../../../../src/server/admission/LoopTurns.ts"
import { atomic } from "../../../../src/server/store/transaction.ts"
import { eventually } from "../../../support/eventually.ts"
import { TestDatabase } from "../../../support/postgres.ts"

/** Runs effects as requests of an organization. */
const asOrganization = Effect.fnUntraced(function* () {
  const org_id = yield* OrgId.generate
  const actor = { id: yield* KeyId.generate, name: "key" }
  return <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.provideService(self, CurrentPrincipal, {
      org_id,
      actor,
      scopes: new Set<never>(),
      groups: [],
      keyMakers: [],
      makers: []
    })
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("transactionCounts", (it) => {
  it.effect(
    "a transaction counts for its client and the clients that share its limits, and for no other",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const built = yield* Layer.build(Layer.fresh(Database.layerDedicatedPool(1)))
        const dedicated = Context.get(built, PgClient.PgClient)
        const { url } = yield* TestDatabase
        const other = Context.get(yield* Layer.build(Layer.fresh(Database.layer({ url }))), PgClient.PgClient)
        const during = yield* atomic(dedicated)(
          Effect.sync(() => [sql, dedicated, other].map(transactionCounts))
        )
        assert.deepStrictEqual(during, [
          { waiting: 0, open: 1 },
          { waiting: 0, open: 1 },
          { waiting: 0, open: 0 }
        ])
        assert.deepStrictEqual(transactionCounts(sql), { waiting: 0, open: 0 })
      })
  )

  it.effect("transactions of one organization leave connections for those of others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [one, other] = [yield* asOrganization(), yield* asOrganization()]
      const released = yield* Deferred.make<void>()
      const waiting = yield* Effect.replicateEffect(
        // Alone, whatever other tests of this process send.
        Effect.forkChild(
          Effect.provideService(one(atomic(sql)(Deferred.await(released))), LoopTurns, makeLoopTurns())
        ),
        20
      )
      yield* eventually(
        Effect.sync(() => transactionCounts(sql)),
        ({ open, waiting }) => open === 8 && waiting === 12
      )
      assert.strictEqual(yield* other(atomic(sql)(Effect.succeed("done"))), "done")
      yield* Deferred.succeed(released, undefined)
      for (const fiber of waiting) yield* Fiber.join(fiber)
    })
  )

  it.effect(
    "an organization gets half of its connections beside other organizations, and half for large requests",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const turns = makeLoopTurns()
        for (const [hasCompany, isLarge, expected] of [
          [false, false, 8],
          [true, false, 4],
          [false, true, 4],
          [true, true, 2]
        ] as const) {
          const request = yield* asOrganization()
          const released = yield* Deferred.make<void>()
          const held = isLarge
            ? inTurns(Effect.yieldNow)(atomic(sql)(Deferred.await(released)))
            : atomic(sql)(Deferred.await(released))
          const waiting = yield* Effect.replicateEffect(
            Effect.forkChild(
              Effect.provideService(
                request(held),
                LoopTurns,
                Object.assign({}, turns, { hasCompany: () => hasCompany })
              )
            ),
            9
          )
          yield* eventually(
            Effect.sync(() => transactionCounts(sql)),
            ({ open, waiting }) => open === expected && waiting === 9 - expected
          )
          yield* Deferred.succeed(released, undefined)
          for (const fiber of waiting) yield* Fiber.join(fiber)
        }
      })
  )

  it.effect("a savepoint does not count beside its transaction", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const during = yield* atomic(sql)(atomic(sql)(Effect.sync(() => transactionCounts(sql))))
      assert.deepStrictEqual(during, { waiting: 0, open: 1 })
    })
  )
})
