import { assert, describe } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Queue } from "effect"
import { SqlClient } from "effect/sql"
import type { AttemptOutcome } from "../../../src/domain/delivery/DeliveryState.ts"
import { DeliveryId, EventId } from "../../../src/domain/Ids.ts"
import { MAX_CONNECTIONS } from "../../../src/server/store/Database.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { type Channel, Delivery, type CompletedDelivery } from "../../../src/server/delivery/Delivery.ts"
import {
  ageAllDeliveries,
  allHaveStatus,
  respondingChannel,
  delivered,
  newDestination,
  withoutEngineFor,
  failing,
  manualChannel,
  recordId,
  noCooldown,
  publish,
  queueLength,
  quickPolicy,
  awaitRecords,
  testWithDatabase,
  withEngine
} from "../../support/delivery.ts"
import { eventually, waitForBlockedStatements } from "../../support/eventually.ts"
import { machineClock } from "../../support/machineClock.ts"

describe("Delivery", () => {
  testWithDatabase("a delivery is sent once its transaction commits, and never if it rolls back", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        yield* Effect.flip(transaction(Effect.andThen(publish(to), Effect.fail("rolled back"))))
        const [event_id] = yield* publish(to)
        const ref = yield* Queue.take(sent)
        assert.strictEqual(ref.event_id, event_id)
        const [record] = yield* awaitRecords(to, allHaveStatus("delivered"))
        assert.strictEqual(record?.attempts, 1)
        assert.strictEqual(record?.last_error, null)
        assert.isNotNull(record?.finished_at)
        const { attempt_log } = yield* delivery.get(to.org_id, to.destination_id, recordId(record))
        assert.deepStrictEqual(
          attempt_log.map(({ attempt, error, status }) => ({ attempt, error, status })),
          [{ attempt: 1, error: null, status: 200 }]
        )
        assert.strictEqual(yield* queueLength, 0)
        assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 1)
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase("the log of a machine whose clock is an hour ahead has the database's times", () =>
    Effect.gen(function* () {
      const { ahead, clock } = machineClock()
      ahead.ofDay = 3_600_000
      const policy = quickPolicy()
      const { channel } = yield* respondingChannel(policy, (_, nth) => (nth === 1 ? failing : delivered))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        yield* publish(to)
        const [record] = yield* awaitRecords(to, allHaveStatus("delivered"))
        const { attempt_log } = yield* delivery.get(to.org_id, to.destination_id, recordId(record))
        assert.lengthOf(attempt_log, 2)
        const { created_at, finished_at } = record ?? assert.fail("it was sent")
        const times = [
          finished_at ?? assert.fail("it has ended"),
          ...attempt_log.map((one) => one.started_at)
        ]
        for (const at of times)
          assert.isBelow(Math.abs(at.epochMilliseconds - created_at.epochMilliseconds), 1_800_000)
      }).pipe(withEngine([channel]), Effect.provideService(Clock.Clock, clock))
    })
  )

  testWithDatabase("a delivery committed by this replica is sent without a read of the queue", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        // The first of them may be found by a read that every start begins with.
        for (let count = 0; count < 5; count++) {
          const [event_id] = yield* publish(to)
          assert.strictEqual((yield* Queue.take(sent)).event_id, event_id)
          yield* awaitRecords(to, allHaveStatus("delivered"))
        }
      }).pipe(withEngine([channel], { reader: { pollMillis: 60_000, sweepMillis: 60_000 } }))
    })
  )

  testWithDatabase(
    "deliveries of a rolled-back savepoint are not sent when the outer transaction commits",
    () =>
      Effect.gen(function* () {
        const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
        yield* Effect.gen(function* () {
          const undone = yield* newDestination
          const kept = yield* newDestination
          yield* transaction(
            Effect.andThen(
              Effect.flip(transaction(Effect.andThen(publish(undone), Effect.fail("rolled back")))),
              publish(kept)
            )
          )
          yield* awaitRecords(kept, allHaveStatus("delivered"))
          const refs = yield* Queue.takeAll(sent)
          assert.deepStrictEqual(
            refs.map((ref) => ref.destination_id),
            [kept.destination_id]
          )
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase("a failed delivery is retried until it succeeds, and the log shows every attempt", () =>
    Effect.gen(function* () {
      const { channel } = yield* respondingChannel(quickPolicy(), (_, nth) => (nth < 3 ? failing : delivered))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        yield* publish(to)
        const [record] = yield* awaitRecords(to, allHaveStatus("delivered"))
        assert.strictEqual(record?.attempts, 3)
        const { attempt_log } = yield* delivery.get(to.org_id, to.destination_id, recordId(record))
        assert.deepStrictEqual(
          attempt_log.map(({ attempt, error, status }) => [attempt, status, error]),
          [
            [1, 503, "HTTP 503"],
            [2, 503, "HTTP 503"],
            [3, 200, null]
          ]
        )
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase("jitter applies to the delay before the first attempt as well", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const retry = { ...quickPolicy().retry, delaysMillis: [60_000], jitter: 0.2 }
      const { channel } = yield* manualChannel(quickPolicy({ retry }))
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        yield* publish(to, 20)
        const waits = yield* sql<{ readonly seconds: number }>`
          SELECT extract(epoch FROM due_at - now())::float8 AS seconds
          FROM delivery_queue
        `
        const seconds = waits.map((one) => one.seconds)
        assert.isBelow(Math.max(...seconds), 72)
        assert.isAbove(Math.max(...seconds) - Math.min(...seconds), 1)
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase("removing a destination cancels its queued deliveries", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 1 }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        yield* publish(to, 3)
        const attempt = yield* Queue.take(attempts)
        yield* transaction(delivery.discard(to.org_id, to.destination_id))
        yield* attempt.complete(failing)
        // A real channel finds the destination gone when it loads a delivery; this one does not load.
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).complete(delivered)
        yield* awaitRecords(to, allHaveStatus("failed"))
        assert.strictEqual(yield* queueLength, 0)
        const list = yield* delivery.list(to.org_id, to.destination_id)
        assert.deepStrictEqual(
          new Set(list.map((record) => record.last_error)),
          new Set(["the destination was removed"])
        )
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase("removing a destination locks queue rows in the order in which results are recorded", () =>
    Effect.gen(function* () {
      const { channel } = yield* manualChannel(quickPolicy())
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const to = yield* newDestination
        yield* publish(to, 2)
        // The second row is due first.
        yield* sql`UPDATE delivery_queue SET due_at = now() - seq * interval '1 second'`
        const [first, second] = yield* sql<{ readonly seq: number }>`
          SELECT seq::float8 AS seq FROM delivery_queue ORDER BY seq
        `
        const lock = (row: typeof first) => sql`
          SELECT seq FROM delivery_queue WHERE seq = ${row?.seq ?? 0}::float8::bigint FOR UPDATE NOWAIT
        `
        const locked = yield* Deferred.make<void>()
        const waited = yield* Deferred.make<void>()
        const writer = yield* Effect.forkChild(
          transaction(
            lock(first).pipe(
              Effect.andThen(Deferred.succeed(locked, undefined)),
              Effect.andThen(Deferred.await(waited)),
              Effect.andThen(lock(second))
            )
          )
        )
        yield* Deferred.await(locked)
        const removal = yield* Effect.forkChild(transaction(delivery.discard(to.org_id, to.destination_id)))
        yield* waitForBlockedStatements(1)
        yield* Deferred.succeed(waited, undefined)
        yield* Fiber.join(writer)
        yield* Fiber.join(removal)
        assert.strictEqual(yield* queueLength, 0)
      }).pipe(withoutEngineFor(channel))
    })
  )

  testWithDatabase(
    "the engine sends and records while callers' transactions hold every connection of their pool",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        yield* Effect.gen(function* () {
          const to = yield* newDestination
          yield* publish(to)
          const begun = yield* Queue.unbounded<void>()
          const release = yield* Deferred.make<void>()
          const holder = transaction(Effect.andThen(Queue.offer(begun, undefined), Deferred.await(release)))
          const holders = yield* Effect.forkChild(
            Effect.all(
              Array.from({ length: MAX_CONNECTIONS }, () => holder),
              { concurrency: "unbounded" }
            )
          )
          for (let i = 0; i < MAX_CONNECTIONS; i++) yield* Queue.take(begun)
          yield* (yield* Queue.take(attempts)).complete(failing)
          // It is sent again only once the first result has been recorded.
          yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* Deferred.succeed(release, undefined)
          yield* Fiber.join(holders)
          const [record] = yield* awaitRecords(to, allHaveStatus("delivered"))
          assert.strictEqual(record?.attempts, 2)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase("each channel keeps its own ids, sizes, outcomes and completion hooks", () =>
    Effect.gen(function* () {
      const partial: AttemptOutcome = { _tag: "Partial", rejected: 3, error: "3 were rejected", status: 200 }
      const refusal: AttemptOutcome = { _tag: "Failed", error: "HTTP 400", status: 400 }
      const settled: Array<CompletedDelivery> = []
      const held = yield* respondingChannel(quickPolicy(), () => delivered)
      const batches = yield* respondingChannel(quickPolicy({ cooldown: noCooldown }), (_, nth) =>
        nth === 1 ? failing : partial
      )
      const other: Channel = {
        ...batches.channel,
        name: "batches",
        ids: { generate: Effect.map(DeliveryId.generate, (id) => id.replace("ndl", "tdl")) },
        onCompleted: (list) => Effect.sync(() => void settled.push(...list))
      }
      const strict: Channel = {
        ...(yield* respondingChannel(quickPolicy(), () => refusal)).channel,
        name: "strict"
      }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        const event_id = yield* EventId.generate
        const [id] = yield* transaction(
          delivery.enqueue([{ ...to, channel: "batches", event_id, label: "spans", size: 512 }])
        )
        const [record] = yield* awaitRecords(to, allHaveStatus("partial"))
        assert.strictEqual(record?.id, id)
        assert.match(record?.id ?? "", /^tdl_[0-9a-f]{32}$/)
        assert.strictEqual(record?.size, 512)
        assert.strictEqual(record?.rejected, 3)
        assert.strictEqual(record?.status_code, 200)
        assert.strictEqual(record?.attempts, 2)
        assert.strictEqual(record?.last_error, "3 were rejected")
        // The channel is notified once; the retried attempt is not final.
        assert.deepStrictEqual(
          settled.map(({ outcome, delivery, status }) => [status, delivery.delivery_id, outcome]),
          [["partial", recordId(record), partial]]
        )
        const replay = yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, recordId(record)))
        assert.strictEqual(replay.code, "NOT_REPLAYABLE")
        const plain = yield* newDestination
        yield* publish(plain)
        yield* awaitRecords(plain, allHaveStatus("delivered"))
        const final = yield* newDestination
        yield* publish(final, 1, "strict")
        const [failed] = yield* awaitRecords(final, allHaveStatus("failed"))
        assert.strictEqual(failed?.attempts, 1)
        assert.strictEqual(failed?.status_code, 400)
        // Retention finds the ids of each channel.
        yield* ageAllDeliveries
        assert.strictEqual((yield* delivery.runRetention).deliveries, 3)
      }).pipe(withEngine([held.channel, other, strict], { retention: { keep: "1 hour" } }))
    })
  )

  testWithDatabase(
    "a delivery fails when the time limit of the retry policy has passed since it was queued",
    () =>
      Effect.gen(function* () {
        const retry = {
          ...quickPolicy().retry,
          delaysMillis: Array.from({ length: 500 }, () => 100),
          maxElapsedMillis: 2_000
        }
        const { channel } = yield* respondingChannel(
          quickPolicy({ cooldown: noCooldown, retry }),
          () => failing
        )
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          yield* publish(to)
          const [record] = yield* awaitRecords(to, allHaveStatus("failed"))
          const first = record?.attempts ?? 0
          assert.isAbove(first, 1)
          assert.isBelow(first, 40)
          // A replay gets the full time again.
          yield* delivery.replay(to.org_id, to.destination_id, recordId(record))
          const [again] = yield* awaitRecords(to, allHaveStatus("failed"))
          assert.isAbove(again?.attempts ?? 0, first + 1)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase("deliveries to a hanging destination expire in time and can be replayed", () =>
    Effect.gen(function* () {
      const within = 400
      const retry = {
        ...quickPolicy().retry,
        delaysMillis: Array.from({ length: 500 }, () => 20),
        maxElapsedMillis: within
      }
      const cooldown = { failureThreshold: 2, firstMillis: 0, longestMillis: 0 }
      const { channel: well } = yield* respondingChannel(quickPolicy({ retry, cooldown }), () => delivered)
      let hangs = true
      let sent = 0
      const channel: Channel = {
        ...well,
        policy: { ...well.policy, deadlineMillis: 100 },
        load: (ref, admit) =>
          Effect.suspend(() => {
            sent++
            return hangs ? Effect.succeed(() => Effect.never) : well.load(ref, admit)
          })
      }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        // More than a lane holds in memory. Sent one at a time they would take ten seconds. All expire at the same time, however long the
        // insert takes.
        yield* publish(to, 100)
        yield* eventually(queueLength, (count) => count === 0)
        assert.isBelow(sent, 30)
        const list = yield* awaitRecords(to, allHaveStatus("failed"))
        // Fewer than thirty were sent, so most expired before their first attempt.
        const unsent = list.filter(({ attempts }) => attempts === 0)
        assert.isAtLeast(unsent.length, list.length - 30)
        for (const { last_error } of unsent)
          assert.strictEqual(last_error, "expired in queue before it could be sent")
        hangs = false
        yield* delivery.replay(to.org_id, to.destination_id, recordId(list[0]))
        yield* awaitRecords(to, (after) => after[0]?.status === "delivered")
      }).pipe(withEngine([channel]))
    })
  )
})
