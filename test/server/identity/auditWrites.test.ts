import { assert, describe, it, layer } from "@effect/vitest"
import { DateTime, Deferred, Effect, Exit, Fiber, Layer, Result, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { type VerifiedChain, verifyEntry } from "../../../src/domain/identity/AuditChain.ts"
import { OrgId } from "../../../src/domain/Ids.ts"
import { AuditChain } from "../../../src/server/identity/AuditChain.ts"
import {
  appendedEntries,
  auditRowsTable,
  type NewAuditRow,
  recordEntry
} from "../../../src/server/identity/auditWrites.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { atomic, atomicWithoutRetry } from "../../../src/server/store/transaction.ts"
import { appendRows, auditRow, startChain } from "../../support/audit.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { TestDatabase } from "../../support/postgres.ts"
import { findInServer } from "../../support/serverSources.ts"

const TestLayer = AuditChain.layer.pipe(
  Layer.provide(StoreClock.layer),
  Layer.provideMerge(TestDatabase.layerSql)
)

/** A new organization with a chain. */
const newOrganization = Effect.gen(function* () {
  const org_id = yield* OrgId.generate
  yield* startChain(org_id)
  return org_id
})

const newRow = (org_id: OrgId) =>
  Effect.flatMap(DateTime.now, (now) => auditRow(org_id, now, { name: 'é "\\ 😀' }))

/** Verifies the chain of an organization up to its head, and returns the ids of its entries. */
const verifiedIds = Effect.fnUntraced(function* (org_id: OrgId) {
  const chain = yield* AuditChain
  const entries = yield* Stream.runCollect(chain.exportFor(org_id, 0))
  let verified: VerifiedChain | undefined
  for (const entry of entries) verified = Result.getOrThrow(verifyEntry(verified, entry))
  const { digest, position } = yield* chain.checkpointFor(org_id)
  assert.strictEqual(position, entries.length)
  assert.strictEqual(verified?.last.digest, digest)
  return entries.map(({ id }) => id)
})

/** Records entries in one transaction. */
const recordRows = (rows: ReadonlyArray<NewAuditRow>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    atomic(sql)(Effect.forEach(rows, recordEntry, { discard: true }))
  )

/** A transaction that locks the heads of organizations until it is released. */
const holdHeads = Effect.fnUntraced(function* (...org_ids: ReadonlyArray<OrgId>) {
  const sql = yield* SqlClient.SqlClient
  const [locked, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const rows = yield* Effect.forEach(org_ids, newRow)
  const holding = yield* Effect.forkChild(
    atomic(sql)(
      Effect.gen(function* () {
        yield* appendRows(rows)
        yield* Deferred.succeed(locked, undefined)
        yield* Deferred.await(released)
      })
    )
  )
  yield* Deferred.await(locked)
  return {
    ids: rows.map(({ entry_id }) => entry_id),
    release: Effect.andThen(Deferred.succeed(released, undefined), Fiber.join(holding))
  }
})

layer(TestLayer, { excludeTestServices: true })("auditWrites", (it) => {
  it.effect(
    "the entries of a transaction, or of a statement, are chained in the order of their recording",
    () =>
      Effect.gen(function* () {
        for (const write of [recordRows, appendRows]) {
          const [org_id, other] = [yield* newOrganization, yield* newOrganization]
          const rows = yield* Effect.forEach([org_id, other, org_id, org_id, other], newRow)
          yield* write(rows)
          const idsOf = (organization: OrgId) =>
            rows.flatMap((row) => (row.org_id === organization ? [row.entry_id] : []))
          assert.deepStrictEqual(yield* verifiedIds(org_id), idsOf(org_id))
          assert.deepStrictEqual(yield* verifiedIds(other), idsOf(other))
        }
      })
  )

  it.effect("an entry of a savepoint that is rolled back is not written, and the others are", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* newOrganization
      const [first, undone, last] = [yield* newRow(org_id), yield* newRow(org_id), yield* newRow(org_id)]
      yield* atomic(sql)(
        Effect.gen(function* () {
          yield* recordEntry(first)
          yield* Effect.exit(atomic(sql)(Effect.andThen(recordEntry(undone), Effect.fail("no"))))
          yield* recordEntry(last)
        })
      )
      assert.deepStrictEqual(yield* verifiedIds(org_id), [first.entry_id, last.entry_id])
    })
  )

  it.effect("a transaction that runs again after a lost race writes its entries once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* newOrganization
      let runs = 0
      yield* atomic(sql)(
        Effect.gen(function* () {
          yield* recordEntry(yield* newRow(org_id))
          if (runs++ === 0) {
            yield* sql.unsafe(
              "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$"
            )
          }
        })
      )
      assert.strictEqual(runs, 2)
      assert.lengthOf(yield* verifiedIds(org_id), 1)
    })
  )

  it.effect("an entry of an organization without a chain fails the transaction", () =>
    Effect.gen(function* () {
      const org_id = yield* OrgId.generate
      assert.isTrue(Exit.isFailure(yield* Effect.exit(recordRows([yield* newRow(org_id)]))))
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`SELECT 1 FROM audit_log WHERE org_id = ${org_id}`, [])
    })
  )

  it.effect("writers that wait for a head continue the chain that the commit before them left", () =>
    Effect.gen(function* () {
      const [org_id, other] = [yield* newOrganization, yield* newOrganization]
      yield* recordRows([yield* newRow(org_id)])
      const holder = yield* holdHeads(org_id)
      const inTransaction = yield* Effect.forkChild(
        recordRows([yield* newRow(org_id), yield* newRow(org_id)])
      )
      const inStatement = yield* Effect.forkChild(
        appendRows([yield* newRow(other), yield* newRow(org_id), yield* newRow(org_id)])
      )
      yield* waitForBlockedStatements(2)
      yield* holder.release
      yield* Fiber.join(inTransaction)
      yield* Fiber.join(inStatement)
      const ids = yield* verifiedIds(org_id)
      assert.lengthOf(ids, 6)
      assert.strictEqual(ids[1], holder.ids[0])
      assert.lengthOf(yield* verifiedIds(other), 1)
    })
  )

  it.effect(
    "a transaction locks no head before its other locks, so two in opposite orders do not deadlock",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const org_id = yield* newOrganization
        const lock = sql`SELECT pg_advisory_xact_lock(35)`
        const [recorded, locked] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const entryFirst = yield* Effect.forkChild(
          atomicWithoutRetry(sql)(
            Effect.gen(function* () {
              yield* recordEntry(yield* newRow(org_id))
              yield* Deferred.succeed(recorded, undefined)
              yield* Deferred.await(locked)
              yield* lock
            })
          )
        )
        yield* atomicWithoutRetry(sql)(
          Effect.gen(function* () {
            yield* Deferred.await(recorded)
            yield* lock
            yield* Deferred.succeed(locked, undefined)
            yield* waitForBlockedStatements(1)
            yield* recordEntry(yield* newRow(org_id))
          })
        )
        yield* Fiber.join(entryFirst)
        assert.lengthOf(yield* verifiedIds(org_id), 2)
      })
  )

  it.effect(
    "writers for several organizations lock their heads in one order, whatever the order of the entries",
    () =>
      Effect.gen(function* () {
        const pair = [yield* newOrganization, yield* newOrganization].toSorted()
        const [lower, higher] = pair
        if (lower === undefined || higher === undefined) return assert.fail("two organizations")
        const reversed = Effect.forEach([higher, lower], newRow)
        for (const write of [recordRows, appendRows]) {
          const holder = yield* holdHeads(lower)
          const waiting = yield* Effect.forkChild(write(yield* reversed))
          yield* waitForBlockedStatements(1)
          // It waits for the lower head, so it does not hold the higher one yet.
          yield* recordRows([yield* newRow(higher)])
          yield* holder.release
          yield* Fiber.join(waiting)
        }
        assert.lengthOf(yield* verifiedIds(lower), 4)
        assert.lengthOf(yield* verifiedIds(higher), 4)
      })
  )

  it.effect("a statement locks the heads after the rows that its later parts write", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* newOrganization
      yield* sql`INSERT INTO secret_changes VALUES (${org_id}, 1)`
      const row = yield* newRow(org_id)
      const statement = sql`
        WITH ${appendedEntries(sql, { entries: sql`SELECT * FROM ${auditRowsTable(sql, [row])}`, org_id })}, counted AS (
          UPDATE secret_changes SET change_count = change_count + 1 WHERE org_id = ${org_id}
        )
        SELECT 1
      `
      const [locked, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const holding = yield* Effect.forkChild(
        atomicWithoutRetry(sql)(
          Effect.gen(function* () {
            yield* sql`SELECT 1 FROM secret_changes WHERE org_id = ${org_id} FOR UPDATE`
            yield* Deferred.succeed(locked, undefined)
            yield* Deferred.await(released)
          })
        )
      )
      yield* Deferred.await(locked)
      const waiting = yield* Effect.forkChild(atomicWithoutRetry(sql)(statement))
      yield* waitForBlockedStatements(1)
      // The head is free, so this commits while the statement waits for the other row.
      yield* recordRows([yield* newRow(org_id)])
      yield* Deferred.succeed(released, undefined)
      yield* Fiber.join(holding)
      yield* Fiber.join(waiting)
      assert.strictEqual((yield* verifiedIds(org_id))[1], row.entry_id)
    })
  )

  it.effect("many writers of two chains, by transactions and by statements, leave both unbroken", () =>
    Effect.gen(function* () {
      const [one, two] = [yield* newOrganization, yield* newOrganization]
      yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index),
        (index) =>
          Effect.flatMap(Effect.forEach(index % 2 === 0 ? [one, two, one] : [two, one], newRow), (rows) =>
            index % 3 === 0 ? recordRows(rows) : appendRows(rows)
          ),
        { concurrency: 8 }
      )
      assert.lengthOf(yield* verifiedIds(one), 60)
      assert.lengthOf(yield* verifiedIds(two), 40)
    })
  )
})

describe("the audit log is append-only", () => {
  it("only auditWrites inserts entries, only retention deletes them, and nothing updates them", () => {
    const found = findInServer(
      /\b(INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE) (?:TABLE |ONLY )*"?(audit_(?:log|chain|heads))\b/gi
    )
    assert.deepStrictEqual(found, [
      "deletion/RowRetention.ts: DELETE FROM audit_chain",
      "deletion/RowRetention.ts: DELETE FROM audit_log",
      "identity/auditWrites.ts: INSERT INTO audit_chain",
      "identity/auditWrites.ts: INSERT INTO audit_heads",
      "identity/auditWrites.ts: INSERT INTO audit_log",
      "identity/auditWrites.ts: UPDATE audit_heads"
    ])
  })
})
