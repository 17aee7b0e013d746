import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { makeQueueWrites } from "../../../../src/server/delivery/Delivery/QueueWrites.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import {
  delivered,
  newDestination,
  withoutEngineFor,
  manualChannel,
  processTime,
  recordId,
  singleAttempt,
  publish,
  queueLength,
  quickPolicy,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually, waitForBlockedStatements } from "../../../support/eventually.ts"

describe("Queue limit", () => {
  testWithDatabase("a transaction queues more deliveries than one statement has parameters for", () =>
    Effect.gen(function* () {
      const { channel } = yield* manualChannel(quickPolicy({ queueLimit: 100_000, retry: singleAttempt }))
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        yield* publish(to, 7_000)
        assert.strictEqual(yield* queueLength, 7_000)
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase(
    'deliveries beyond a destination\'s queue limit fail with "queue full" and can be replayed',
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(
          quickPolicy({ queueLimit: 5, retry: singleAttempt })
        )
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          yield* Effect.all(
            Array.from({ length: 8 }, () => publish(to)),
            { concurrency: "unbounded" }
          )
          const list = yield* delivery.list(to.org_id, to.destination_id)
          const full = list.filter((record) => record.status === "failed")
          assert.deepStrictEqual(
            full.map((record) => [record.attempts, record.last_error]),
            Array.from({ length: 3 }, () => [0, "queue full"])
          )
          const health = (yield* delivery.health(to.org_id, [to.destination_id])).get(to.destination_id)
          assert.strictEqual(health?.pending_deliveries, 5)
          const [first] = full
          const id = recordId(first)
          const refused = yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, id))
          assert.strictEqual(refused.code, "QUEUE_FULL")
          yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* eventually(queueLength, (count) => count === 4)
          yield* delivery.replay(to.org_id, to.destination_id, id)
          for (let i = 0; i < 5; i++) yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* eventually(queueLength, (count) => count === 0)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase(
    "deliveries beyond a full queue fail without waiting for the lock of their destination",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* manualChannel(quickPolicy({ queueLimit: 2 }))
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          yield* publish(to, 2)
          const locked = yield* Deferred.make<void>()
          const release = yield* Deferred.make<void>()
          const { lockDestination } = makeQueueWrites(yield* SqlClient.SqlClient, processTime)
          const holder = yield* Effect.forkChild(
            transaction(
              lockDestination(to.org_id, to.destination_id).pipe(
                Effect.andThen(Deferred.succeed(locked, undefined)),
                Effect.andThen(Deferred.await(release))
              )
            )
          )
          yield* Deferred.await(locked)
          yield* publish(to, 2)
          const list = yield* delivery.list(to.org_id, to.destination_id)
          assert.deepStrictEqual(
            list.map((record) => [record.status, record.last_error, record.finished_at === null]),
            [
              ["failed", "queue full", false],
              ["failed", "queue full", false],
              ["pending", null, true],
              ["pending", null, true]
            ]
          )
          assert.strictEqual(yield* queueLength, 2)
          yield* Deferred.succeed(release, undefined)
          yield* Fiber.join(holder)
        }).pipe(withoutEngineFor(channel))
      })
  )

  testWithDatabase(
    "organizations that share a destination, such as a mail server, do not share its queue limit",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* manualChannel(quickPolicy({ queueLimit: 2 }))
        yield* Effect.gen(function* () {
          const one = yield* newDestination
          const other = { ...(yield* newDestination), destination_id: one.destination_id }
          yield* publish(one, 2)
          for (let count = 0; count < 2; count++) yield* publish(other)
          assert.strictEqual(yield* queueLength, 4)
        }).pipe(withoutEngineFor(channel))
      })
  )

  testWithDatabase("two concurrent large inserts do not exceed a destination's queue limit", () =>
    Effect.gen(function* () {
      const { channel } = yield* manualChannel(quickPolicy({ queueLimit: 1_000 }))
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        const first = yield* Deferred.make<void>()
        const second = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const bring = (brought: Deferred.Deferred<void>) =>
          Effect.forkChild(
            transaction(
              publish(to, 700).pipe(
                Effect.andThen(Deferred.succeed(brought, undefined)),
                Effect.andThen(Deferred.await(commit))
              )
            )
          )
        const one = yield* bring(first)
        yield* Deferred.await(first)
        const other = yield* bring(second)
        yield* Effect.race(Deferred.await(second), waitForBlockedStatements(1))
        yield* Deferred.succeed(commit, undefined)
        yield* Effect.all([Fiber.join(one), Fiber.join(other)])
        assert.strictEqual(yield* queueLength, 1_000)
      }).pipe(withoutEngineFor(channel))
    })
  )

  testWithDatabase("ten concurrent small inserts do not exceed a destination's queue limit", () =>
    Effect.gen(function* () {
      const { channel } = yield* manualChannel(quickPolicy({ queueLimit: 9 }))
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        const all = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        let inserted = 0
        const insert = transaction(
          Effect.gen(function* () {
            yield* publish(to)
            if (++inserted === 10) yield* Deferred.succeed(all, undefined)
            yield* Deferred.await(commit)
          })
        )
        const inserts = yield* Effect.replicateEffect(Effect.forkChild(insert), 10)
        yield* Effect.race(Deferred.await(all), waitForBlockedStatements(1))
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.joinAll(inserts)
        assert.strictEqual(yield* queueLength, 9)
      }).pipe(withoutEngineFor(channel))
    })
  )
})
