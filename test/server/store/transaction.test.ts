import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { OrgId } from "../../../src/domain/Ids.ts"
import {
  afterCommit,
  atomic,
  atomicWithoutRetry,
  isInTransaction,
  onCompletion,
  requireTransaction,
  transaction,
  makeLastWrite
} from "../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("transaction", (it) => {
  const lostBy = (error: "deadlock_detected" | "serialization_failure") =>
    Effect.flatMap(SqlClient.SqlClient, (sql) =>
      sql.unsafe(`DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '${error}'; END $$`)
    )
  const deadlock = lostBy("deadlock_detected")

  /** Registers both kinds of hooks under a name, and notes which of them run. */
  const makeHooks = () => {
    const log: Array<string> = []
    const note = (line: string) => Effect.sync(() => void log.push(line))
    const register = (name: string) =>
      Effect.andThen(
        onCompletion((committed) => note(`${name}: ${committed ? "committed" : "rolled back"}`)),
        afterCommit(note(`${name}: after commit`))
      )
    return { log, note, register }
  }

  it.effect("a transaction that lost a race runs four times, and one without retries runs once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let runs = 0
      const losing = Effect.andThen(
        Effect.sync(() => runs++),
        deadlock
      )
      yield* Effect.exit(atomic(sql)(losing))
      assert.strictEqual(runs, 4)
      runs = 0
      yield* Effect.exit(atomicWithoutRetry(sql)(losing))
      assert.strictEqual(runs, 1)
    })
  )

  it.effect("a transaction that could not be serialized runs again", () =>
    Effect.gen(function* () {
      let runs = 0
      const first = lostBy("serialization_failure")
      yield* transaction(Effect.suspend(() => (runs++ === 0 ? Effect.asVoid(first) : Effect.void)))
      assert.strictEqual(runs, 2)
    })
  )

  it.effect("a connection lost in a transaction is an error that a caller can handle", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const error = yield* Effect.flip(transaction(sql`SELECT pg_terminate_backend(pg_backend_pid())`))
      assert.isTrue(SqlError.isSqlError(error))
    })
  )

  it.effect(
    "last writes run before the commit, by one statement for each table and organization, in whatever order they were added",
    () =>
      Effect.gen(function* () {
        const { log, note, register } = makeHooks()
        const noteOf = (table: "audit_heads" | "secret_changes") =>
          makeLastWrite<{ readonly name: string }>(table, (org_id, items) =>
            note(`${table} ${org_id.at(-1)}: ${items.map(({ name }) => name).join()}`)
          )
        const [writeHead, writeSecret] = [noteOf("audit_heads"), noteOf("secret_changes")]
        const [lower, higher] = [OrgId.make(`org_${"1".repeat(32)}`), OrgId.make(`org_${"2".repeat(32)}`)]
        yield* transaction(
          Effect.gen(function* () {
            yield* register("transaction")
            for (const write of [writeHead, writeSecret]) {
              for (const org_id of [higher, lower]) yield* write(org_id, { name: "first" })
            }
            const again = writeHead(lower, { name: "again" })
            yield* transaction(again)
            yield* Effect.exit(transaction(Effect.andThen(again, Effect.fail("rolled back"))))
            yield* note("body ends")
          })
        )
        assert.deepStrictEqual(log, [
          "body ends",
          "secret_changes 1: first",
          "secret_changes 2: first",
          "audit_heads 1: first,again",
          "audit_heads 2: first",
          "transaction: after commit",
          "transaction: committed"
        ])
      })
  )

  it.effect("hooks run after the outermost commit, those after commit before those on completion", () =>
    Effect.gen(function* () {
      const { log, note, register } = makeHooks()
      yield* transaction(
        Effect.andThen(register("outer"), Effect.andThen(transaction(register("inner")), note("body ends")))
      )
      assert.deepStrictEqual(log, [
        "body ends",
        "outer: after commit",
        "inner: after commit",
        "outer: committed",
        "inner: committed"
      ])
    })
  )

  it.effect("an effect after the commit is outside the transaction, and retries one of its own", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { log, note } = makeHooks()
      let runs = 0
      const own = Effect.suspend(() => (runs++ === 0 ? Effect.asVoid(deadlock) : note("own transaction")))
      yield* transaction(
        afterCommit(
          Effect.gen(function* () {
            yield* note((yield* isInTransaction) ? "inside" : "outside")
            yield* atomic(sql)(own)
          })
        )
      )
      assert.deepStrictEqual(log, ["outside", "own transaction"])
    })
  )

  it.effect("hooks run immediately outside a transaction", () =>
    Effect.gen(function* () {
      const { log, register } = makeHooks()
      yield* register("alone")
      assert.deepStrictEqual(log, ["alone: committed", "alone: after commit"])
    })
  )

  it.effect("a rolled-back transaction runs only the hooks on completion", () =>
    Effect.gen(function* () {
      const { log, register } = makeHooks()
      yield* Effect.exit(transaction(Effect.andThen(register("outer"), Effect.fail("no"))))
      assert.deepStrictEqual(log, ["outer: rolled back"])
    })
  )

  it.effect("a rolled-back savepoint drops its hooks after commit, and the transaction keeps its own", () =>
    Effect.gen(function* () {
      const { log, register } = makeHooks()
      yield* transaction(
        Effect.andThen(
          register("outer"),
          Effect.ignore(transaction(Effect.andThen(register("inner"), Effect.fail("no"))))
        )
      )
      assert.deepStrictEqual(log, ["inner: rolled back", "outer: after commit", "outer: committed"])
    })
  )

  it.effect("a retried transaction runs the hooks after commit of its last run alone", () =>
    Effect.gen(function* () {
      const { log, register } = makeHooks()
      let runs = 0
      yield* transaction(
        Effect.suspend(() => {
          runs++
          return Effect.andThen(register(`run ${runs}`), runs === 1 ? Effect.asVoid(deadlock) : Effect.void)
        })
      )
      assert.deepStrictEqual(log, ["run 1: rolled back", "run 2: after commit", "run 2: committed"])
    })
  )

  it.effect("an interrupted transaction rolls back and runs the hooks on completion", () =>
    Effect.gen(function* () {
      const { log, register } = makeHooks()
      const registered = yield* Deferred.make<void>()
      const fiber = yield* Effect.forkChild(
        transaction(
          Effect.andThen(
            register("outer"),
            Effect.andThen(Deferred.succeed(registered, undefined), Effect.never)
          )
        )
      )
      yield* Deferred.await(registered)
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(log, ["outer: rolled back"])
    })
  )

  it.effect("a write that requires its caller's transaction dies without one", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* Effect.exit(requireTransaction))._tag, "Failure")
      yield* transaction(requireTransaction)
    })
  )
})
