import { assert, describe, it } from "@effect/vitest"
import { Clock, DateTime, Deferred, Effect, Fiber, Queue } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { type Channel, Delivery, type CompletedDelivery } from "../../../../src/server/delivery/Delivery.ts"
import { runWorker } from "../../../../src/server/concurrency/Worker.ts"
import type { DeliveryStore } from "../../../../src/server/delivery/Delivery/DeliveryStore.ts"
import { makeFinisher } from "../../../../src/server/delivery/Delivery/Finisher.ts"
import {
  allHaveStatus,
  respondingChannel,
  delivered,
  newDestination,
  failing,
  manualChannel,
  recordId,
  singleAttempt,
  publish,
  queueLength,
  queueRow,
  quickPolicy,
  awaitRecords,
  startDispatcher,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

const unused = Effect.die("The finisher reads nothing")
const unreadStore: Omit<DeliveryStore, "recordResults"> = {
  hasCachedNumbers: unused,
  tail: () => unused,
  nonEmpty: () => unused,
  heads: () => unused,
  refill: () => unused,
  saveHealth: () => unused
}

describe("Finisher", () => {
  testWithDatabase(
    "a destination that answers 410 is disabled even if the database is unavailable at first, without delaying other results",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        const off = yield* Deferred.make<string>()
        let tries = 0
        const away = new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: "away" }) })
        const switched: Channel = {
          ...channel,
          disable: (_, destination_id) =>
            Effect.suspend(() =>
              ++tries < 6 ? Effect.fail(away) : Effect.asVoid(Deferred.succeed(off, destination_id))
            )
        }
        yield* Effect.gen(function* () {
          const gone = yield* newDestination
          const other = yield* newDestination
          yield* publish(gone)
          yield* (yield* Queue.take(attempts)).complete({ _tag: "Gone", status: 410, error: "HTTP 410" })
          yield* awaitRecords(gone, allHaveStatus("failed"))
          yield* publish(other)
          yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* awaitRecords(other, allHaveStatus("delivered"))
          assert.strictEqual(yield* Deferred.await(off), gone.destination_id)
        }).pipe(withEngine([switched]))
      })
  )

  testWithDatabase(
    "a result that the database rejects is recorded as failed, and the rest of its batch as it ended",
    () =>
      Effect.gen(function* () {
        const poison = { ...failing, error: "no\u0000text" }
        const bad = yield* newDestination
        const refused = yield* newDestination
        const { channel, sent } = yield* respondingChannel(quickPolicy({ concurrency: 4 }), (ref) => {
          if (ref.destination_id === refused.destination_id) return { _tag: "Refused", error: poison.error }
          return ref.destination_id === bad.destination_id ? poison : delivered
        })
        yield* Effect.gen(function* () {
          const good = yield* newDestination
          yield* publish(bad)
          yield* publish(good, 5)
          yield* awaitRecords(good, allHaveStatus("delivered"))
          yield* Queue.takeN(sent, 6)
          const [record] = yield* awaitRecords(bad, allHaveStatus("failed"))
          assert.strictEqual(record?.attempts, 1)
          assert.strictEqual(record?.last_error, "internal error: the result could not be written")
          yield* publish(refused)
          const [unsent] = yield* awaitRecords(refused, allHaveStatus("failed"))
          assert.strictEqual(unsent?.attempts, 0)
          assert.strictEqual(yield* queueLength, 0)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase("results are recorded while a replay holds the lock of their destination", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ retry: singleAttempt }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        const other = yield* newDestination
        const since = yield* DateTime.now
        yield* publish(to)
        const first = yield* Queue.take(attempts)
        const held = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const replay = yield* Effect.forkChild(
          transaction(
            delivery
              .replayWindow(to.org_id, to.destination_id, { since, until: null })
              .pipe(Effect.andThen(Deferred.succeed(held, undefined)), Effect.andThen(Deferred.await(commit)))
          )
        )
        yield* Deferred.await(held)
        yield* first.complete(failing)
        yield* awaitRecords(to, allHaveStatus("failed"))
        yield* publish(other)
        yield* (yield* Queue.take(attempts)).complete(delivered)
        yield* awaitRecords(other, allHaveStatus("delivered"))
        const health = Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) =>
          map.get(to.destination_id)
        )
        yield* eventually(health, (now) => now?.consecutive_failures === 1)
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(replay)
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase(
    "results of other destinations are recorded while the rows of one are locked, and those of that one afterwards",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy({ retry: singleAttempt }))
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const [removed, kept, other] = [yield* newDestination, yield* newDestination, yield* newDestination]
          const held = yield* Deferred.make<void>()
          const end = yield* Deferred.make<void>()
          const sent = yield* Effect.forEach([removed, kept, other], (to) =>
            Effect.andThen(publish(to), Queue.take(attempts))
          )
          const removal = yield* Effect.forkChild(
            transaction(
              sql`DELETE FROM delivery_queue WHERE destination_id = ${removed.destination_id}`.pipe(
                Effect.andThen(
                  sql`SELECT FROM delivery_queue WHERE destination_id = ${kept.destination_id} FOR UPDATE`
                ),
                Effect.andThen(Deferred.succeed(held, undefined)),
                Effect.andThen(Deferred.await(end))
              )
            )
          )
          yield* Deferred.await(held)
          yield* Effect.gen(function* () {
            yield* Effect.forEach(sent, (attempt) => attempt.complete(delivered))
            yield* awaitRecords(other, allHaveStatus("delivered"))
            // A later batch is recorded too.
            yield* publish(other)
            yield* (yield* Queue.take(attempts)).complete(delivered)
            yield* awaitRecords(other, (list) => list.length === 2 && allHaveStatus("delivered")(list))
            yield* awaitRecords(kept, allHaveStatus("pending"))
          }).pipe(Effect.ensuring(Deferred.succeed(end, undefined)))
          yield* Fiber.join(removal)
          const [record] = yield* awaitRecords(kept, allHaveStatus("delivered"))
          assert.strictEqual(record?.attempts, 1)
          assert.strictEqual(yield* queueLength, 0)
          assert.strictEqual(yield* Queue.size(attempts), 0)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase(
    "results are recorded while the completion hook of another channel waits for a lock, and its own afterwards, once",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE hook_counts AS SELECT 0 AS completed`
        const { channel } = yield* respondingChannel(quickPolicy(), () => delivered)
        const counting: Channel = {
          ...channel,
          name: "counting",
          // On the caller's connections, so that its count remains although the results roll back.
          onCompleted: (list) =>
            Effect.asVoid(sql`UPDATE hook_counts SET completed = completed + ${list.length}`)
        }
        yield* Effect.gen(function* () {
          const [to, other] = [yield* newDestination, yield* newDestination]
          const held = yield* Deferred.make<void>()
          const end = yield* Deferred.make<void>()
          const lock = yield* Effect.forkChild(
            transaction(
              sql`SELECT FROM hook_counts FOR UPDATE`.pipe(
                Effect.andThen(Deferred.succeed(held, undefined)),
                Effect.andThen(Deferred.await(end))
              )
            )
          )
          yield* Deferred.await(held)
          yield* Effect.gen(function* () {
            yield* publish(to, 1, "counting")
            yield* publish(other, 2)
            yield* awaitRecords(other, allHaveStatus("delivered"))
            yield* awaitRecords(to, allHaveStatus("pending"))
          }).pipe(Effect.ensuring(Deferred.succeed(end, undefined)))
          yield* Fiber.join(lock)
          const [record] = yield* awaitRecords(to, allHaveStatus("delivered"))
          assert.strictEqual(record?.attempts, 1)
          assert.deepStrictEqual(yield* sql`SELECT completed FROM hook_counts`, [{ completed: 1 }])
        }).pipe(withEngine([channel, counting]))
      })
  )

  testWithDatabase(
    "health of other destinations is stored while one health row is locked, and of that one afterwards",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(
          quickPolicy({ retry: { ...singleAttempt, delaysMillis: [0, 0, 0] } })
        )
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const delivery = yield* Delivery
          const to = yield* newDestination
          const other = yield* newDestination
          const failures = (of: typeof to) =>
            Effect.map(
              delivery.health(of.org_id, [of.destination_id]),
              (map) => map.get(of.destination_id)?.consecutive_failures
            )
          yield* publish(to)
          yield* (yield* Queue.take(attempts)).complete(failing)
          yield* eventually(failures(to), (count) => count === 1)
          const second = yield* Queue.take(attempts)
          const held = yield* Deferred.make<void>()
          const commit = yield* Deferred.make<void>()
          const removal = yield* Effect.forkChild(
            transaction(
              sql`DELETE FROM delivery_destinations`.pipe(
                Effect.andThen(Deferred.succeed(held, undefined)),
                Effect.andThen(Deferred.await(commit))
              )
            )
          )
          yield* Deferred.await(held)
          yield* second.complete(failing)
          yield* publish(other)
          yield* Effect.forkChild(
            Effect.forever(Effect.flatMap(Queue.take(attempts), (attempt) => attempt.complete(failing)))
          )
          yield* awaitRecords(other, allHaveStatus("failed"))
          yield* eventually(failures(other), (count) => count === 3)
          yield* awaitRecords(to, allHaveStatus("failed"))
          yield* Deferred.succeed(commit, undefined)
          yield* Fiber.join(removal)
          yield* eventually(failures(to), (count) => count === 3)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase(
    "a delivery whose completion hook fails is recorded as failed, and all others as they ended",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* respondingChannel(quickPolicy(), () => delivered)
        const bad: Channel = {
          ...channel,
          name: "bad",
          onCompleted: () =>
            Effect.asVoid(
              Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 / 0`).pipe(
                Effect.provideService(SqlClient.SqlClient, client)
              )
            )
        }
        const client = yield* SqlClient.SqlClient
        const broken: Channel = {
          ...channel,
          name: "broken",
          onCompleted: () => Effect.die("a fault of the channel")
        }
        const settled: Array<CompletedDelivery> = []
        const picky: Channel = {
          ...channel,
          name: "picky",
          onCompleted: (list) =>
            list.some(({ status }) => status === "delivered")
              ? Effect.die("a fault of the channel")
              : Effect.sync(() => void settled.push(...list))
        }
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const good = yield* newDestination
          const to = yield* newDestination
          const unlucky = yield* newDestination
          yield* publish(to, 1, "bad")
          yield* publish(unlucky, 1, "broken")
          yield* publish(good, 3)
          yield* awaitRecords(good, allHaveStatus("delivered"))
          const [record] = yield* awaitRecords(to, allHaveStatus("failed"))
          assert.strictEqual(record?.last_error, "internal error: the result could not be written")
          yield* awaitRecords(unlucky, allHaveStatus("failed"))
          // A channel that can handle the failure is notified of it.
          const other = yield* newDestination
          const [event_id] = yield* publish(other, 1, "picky")
          yield* awaitRecords(other, allHaveStatus("failed"))
          assert.deepStrictEqual(
            settled.map(({ delivery, status }) => [delivery.event_id, status]),
            [[event_id, "failed"]]
          )
          assert.strictEqual(yield* queueLength, 0)
          yield* delivery.replay(to.org_id, to.destination_id, recordId(record))
          yield* awaitRecords(to, (list) => list[0]?.replays === 1 && list[0].status === "failed")
        }).pipe(withEngine([channel, bad, broken, picky]))
      })
  )

  it.effect(
    "a channel is notified only of deliveries whose results were written, and not of one that a new owner has",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        const completed: Array<number> = []
        const notified: Channel = {
          ...channel,
          onCompleted: (list) => Effect.sync(() => void completed.push(list.length))
        }
        const { dispatcher } = yield* startDispatcher(notified)
        const refused: Array<string> = []
        let owner = "other"
        const store: DeliveryStore = {
          ...unreadStore,
          recordResults: (batch, onWritten) => {
            const written = new Set(owner === "this" ? batch.map(({ result }) => result.delivery.seq) : [])
            return Effect.as(onWritten?.(written) ?? Effect.void, { written, locked: new Set<number>() })
          }
        }
        const { worker } = yield* makeFinisher(store, yield* Clock.Clock, dispatcher, ({ key }) => {
          refused.push(key)
        })
        dispatcher.offer([queueRow({ seq: 1 }), queueRow({ seq: 2 })], 0, 0)
        for (const attempt of yield* Queue.takeN(attempts, 2)) {
          yield* attempt.complete(delivered)
          yield* worker.runOnce
          owner = "this"
        }
        assert.deepStrictEqual(completed, [1])
        assert.lengthOf(refused, 1)
      }).pipe(Effect.scoped)
  )

  it.effect("a failed attempt is made again, unless another replica has the delivery", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher } = yield* startDispatcher(channel)
      const [own, lost] = [queueRow({ seq: 1 }), queueRow({ seq: 2 })]
      const store: DeliveryStore = {
        ...unreadStore,
        recordResults: (batch) =>
          Effect.succeed({
            written: new Set(batch.map(({ result }) => result.delivery.seq).filter((seq) => seq === own.seq)),
            locked: new Set()
          })
      }
      const { worker } = yield* makeFinisher(store, yield* Clock.Clock, dispatcher, () => {})
      dispatcher.offer([own, lost], 0, 0)
      for (const attempt of yield* Queue.takeN(attempts, 2)) {
        yield* attempt.complete(failing)
        yield* worker.runOnce
      }
      yield* TestClock.adjust("10 seconds")
      const again = yield* Queue.clear(attempts)
      assert.deepStrictEqual(
        again.map(({ delivery }) => delivery.event_id),
        [own.event_id]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("a locked result is written again every 250 ms until it is recorded, with others meanwhile", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher, owned } = yield* startDispatcher(channel)
      const locked = new Set([1])
      const written: Array<ReadonlyArray<number>> = []
      const store: DeliveryStore = {
        ...unreadStore,
        recordResults: (batch) => {
          const rows = batch.map(({ result }) => result.delivery.seq)
          written.push(rows)
          return Effect.succeed({
            written: new Set(rows.filter((seq) => !locked.has(seq))),
            locked: new Set(locked)
          })
        }
      }
      const { worker } = yield* makeFinisher(store, yield* Clock.Clock, dispatcher, () =>
        assert.fail("No result was refused")
      )
      yield* Effect.forkScoped(runWorker(worker))
      dispatcher.offer([queueRow({ seq: 1 }), queueRow({ seq: 2 }), queueRow({ seq: 3 })], 0, 0)
      const [first, second, third] = yield* Queue.takeN(attempts, 3)
      yield* first?.complete(delivered) ?? Effect.void
      yield* TestClock.adjust("100 millis")
      yield* second?.complete(delivered) ?? Effect.void
      yield* TestClock.adjust("150 millis")
      assert.deepStrictEqual(written, [[1], [2]])
      yield* TestClock.adjust("300 millis")
      assert.deepStrictEqual(written, [[1], [2], [1], [1]])
      assert.strictEqual(owned.get(0)?.unfinished, 2)
      locked.clear()
      yield* third?.complete(delivered) ?? Effect.void
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(written.slice(4), [[3], [1]])
      assert.strictEqual(owned.get(0)?.unfinished, 0)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "after a defect while results are recorded, their shard can be released, and nothing is sent twice",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        const { dispatcher, owned } = yield* startDispatcher(channel)
        let hasDefect = false
        const store: DeliveryStore = {
          ...unreadStore,
          recordResults: (batch) =>
            hasDefect
              ? Effect.die("a defect of the store")
              : Effect.succeed({
                  written: new Set(batch.map(({ result }) => result.delivery.seq)),
                  locked: new Set()
                })
        }
        const { worker } = yield* makeFinisher(store, yield* Clock.Clock, dispatcher, () => {})
        const rows = [queueRow({ seq: 1 }), queueRow({ seq: 2 })]
        dispatcher.offer(rows, 0, 0)
        for (const attempt of yield* Queue.takeN(attempts, 2)) {
          yield* attempt.complete(delivered)
          yield* worker.runOnce
          hasDefect = true
        }
        assert.strictEqual(owned.get(0)?.unfinished, 0)
        dispatcher.offer(rows.slice(1), 0, 0)
        yield* Effect.yieldNow
        yield* Effect.yieldNow
        assert.strictEqual(yield* Queue.size(attempts), 0)
      }).pipe(Effect.scoped)
  )
})
