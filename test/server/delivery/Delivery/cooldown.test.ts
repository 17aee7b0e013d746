import { assert, describe } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber, Queue } from "effect"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { shardOf } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import {
  allHaveStatus,
  respondingChannel,
  delivered,
  newDestination,
  failing,
  manualChannel,
  assertOnlyOtherDestinationIsSent,
  noCooldown,
  publish,
  queueLength,
  quickPolicy,
  awaitRecords,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

/** The channel's destinations in cooldown, as the engine counts them. */
const coolingOf = Effect.flatMap(Delivery, ({ stats }) =>
  Effect.map(stats, ({ channels }) => channels.get("held")?.coolingDown)
)

describe("Cooldown", () => {
  testWithDatabase(
    "a destination that fails repeatedly is not sent to during its cooldown, then probed once",
    () =>
      Effect.gen(function* () {
        const cooldown = { failureThreshold: 3, firstMillis: 5_000, longestMillis: 5_000 }
        const retry = { ...quickPolicy().retry, delaysMillis: [0, 0, 0, 0, 0, 0, 0, 0] }
        const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 1, cooldown, retry }))
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          const health = Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) =>
            map.get(to.destination_id)
          )
          yield* publish(to, 6)
          for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).complete(failing)
          const third = yield* Queue.take(attempts)
          const failedAt = (yield* DateTime.now).epochMilliseconds
          yield* third.complete(failing)
          const cooling = yield* eventually(health, (now) => (now?.cooldown_until ?? null) !== null)
          assert.strictEqual(cooling?.consecutive_failures, 3)
          assert.strictEqual(cooling?.pending_deliveries, 6)
          // Another destination is not delayed, so time passes here without an attempt at the first.
          const other = yield* newDestination
          yield* publish(other)
          yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* awaitRecords(other, allHaveStatus("delivered"))
          assert.strictEqual(yield* Queue.size(attempts), 0)
          const probe = yield* Queue.take(attempts)
          assert.strictEqual(probe.delivery.destination_id, to.destination_id)
          // One millisecond of tolerance: the cooldown runs on another clock of this machine.
          assert.isAtLeast((yield* DateTime.now).epochMilliseconds, failedAt + cooldown.firstMillis - 1)
          yield* publish(other)
          yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* eventually(delivery.list(other.org_id, other.destination_id), allHaveStatus("delivered"))
          assert.strictEqual(yield* Queue.size(attempts), 0)
          yield* probe.complete(delivered)
          for (let i = 0; i < 5; i++) yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* awaitRecords(to, allHaveStatus("delivered"))
          assert.strictEqual((yield* health)?.consecutive_failures, 0)
          assert.strictEqual((yield* health)?.cooldown_until, null)
        }).pipe(withEngine([channel]))
      })
  )

  for (const [place, retryMillis] of [
    ["in memory", 300_000],
    ["in the database", 3_000_000]
  ] as const) {
    testWithDatabase(
      `retries that wait ${place} are made due at once, and keep their number of attempts`,
      () =>
        Effect.gen(function* () {
          const retry = { ...quickPolicy().retry, delaysMillis: [0, retryMillis, 0], jitter: 0 }
          const cooldown = { failureThreshold: 4, firstMillis: 600_000, longestMillis: 600_000 }
          const { attempts, channel } = yield* manualChannel(quickPolicy({ cooldown, retry }))
          yield* Effect.gen(function* () {
            const delivery = yield* Delivery
            const to = yield* newDestination
            const other = yield* newDestination
            yield* publish(to, 4)
            for (let i = 0; i < 4; i++) yield* (yield* Queue.take(attempts)).complete(failing)
            yield* awaitRecords(to, (records) => records.every((record) => record.attempts === 1))
            yield* eventually(
              Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) =>
                map.get(to.destination_id)
              ),
              (now) => (now?.cooldown_until ?? null) !== null
            )
            // Another destination's deliveries are left alone.
            yield* publish(other)
            yield* (yield* Queue.take(attempts)).complete(failing)
            yield* awaitRecords(other, (records) => records.every((record) => record.attempts === 1))
            yield* transaction(delivery.retryNow(to.org_id, to.destination_id))
            const probe = yield* Queue.take(attempts)
            assert.strictEqual(probe.delivery.destination_id, to.destination_id)
            yield* probe.complete(delivered)
            for (let i = 0; i < 3; i++) yield* (yield* Queue.take(attempts)).complete(delivered)
            const records = yield* awaitRecords(to, allHaveStatus("delivered"))
            assert.deepStrictEqual(
              records.map((record) => record.attempts),
              [2, 2, 2, 2]
            )
            assert.strictEqual(yield* Queue.size(attempts), 0)
            assert.strictEqual(yield* queueLength, 1)
          }).pipe(withEngine([channel], { reader: { sweepMillis: 600_000 } }))
        })
    )
  }

  testWithDatabase("the sweep finds lanes that were dropped for a cooldown or a late retry", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 2, firstMillis: 2_000, longestMillis: 2_000 }
      const retry = { ...quickPolicy().retry, delaysMillis: [0, 0, 0, 0], jitter: 0 }
      const cooling = yield* manualChannel(quickPolicy({ concurrency: 1, cooldown, retry }))
      const late = yield* manualChannel(
        quickPolicy({ cooldown: noCooldown, retry: { ...retry, delaysMillis: [0, 800] } })
      )
      const channels = [cooling.channel, { ...late.channel, name: "late" }]
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* newDestination
        const shard = shardOf(to.destination_id)
        const ofShard = Effect.repeat(newDestination, {
          until: ({ destination_id }) => shardOf(destination_id) === shard
        })
        const others = [
          ...(yield* Effect.replicateEffect(newDestination, 18)),
          yield* ofShard,
          yield* ofShard
        ]
        yield* publish(to, 3)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(cooling.attempts)).complete(failing)
        const health = yield* eventually(
          Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) => map.get(to.destination_id)),
          (now) => (now?.cooldown_until ?? null) !== null
        )
        for (const other of others) yield* publish(other, 1, "late")
        const first = yield* Queue.takeN(late.attempts, others.length)
        const failedAt = (yield* DateTime.now).epochMilliseconds
        for (const attempt of first) yield* attempt.complete(failing)
        // A new delivery waits as well, also when it is passed on without a read.
        yield* publish(to)
        const probe = yield* Queue.take(cooling.attempts)
        const until = health?.cooldown_until?.epochMilliseconds ?? Infinity
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, until - 50)
        const second = yield* Queue.takeN(late.attempts, others.length)
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, failedAt + 750)
        for (const attempt of second) yield* attempt.complete(delivered)
        yield* probe.complete(delivered)
        for (let i = 0; i < 3; i++) yield* (yield* Queue.take(cooling.attempts)).complete(delivered)
        yield* awaitRecords(to, allHaveStatus("delivered"))
        for (const other of others) yield* awaitRecords(other, allHaveStatus("delivered"))
      }).pipe(withEngine(channels, { reader: { sweepMillis: 50 } }))
    })
  )

  testWithDatabase("destinations in cooldown are counted, and receive no new deliveries", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 1, firstMillis: 600_000, longestMillis: 600_000 }
      const { attempts, channel } = yield* manualChannel(quickPolicy({ cooldown }))
      yield* Effect.gen(function* () {
        const to = yield* Effect.replicateEffect(newDestination, 3)
        for (const one of to) yield* publish(one)
        for (const attempt of yield* Queue.takeN(attempts, 3)) yield* attempt.complete(failing)
        yield* eventually(coolingOf, (count) => count === 3)
        for (const one of to) yield* publish(one)
        yield* assertOnlyOtherDestinationIsSent(attempts)
      }).pipe(withEngine([channel], { reader: { sweepMillis: 50 } }))
    })
  )

  testWithDatabase(
    "a delivery committed after its destination's cooldown began is not sent, although it was inserted before",
    () =>
      Effect.gen(function* () {
        const cooldown = { failureThreshold: 1, firstMillis: 600_000, longestMillis: 600_000 }
        const { attempts, channel } = yield* manualChannel(quickPolicy({ cooldown }))
        yield* Effect.gen(function* () {
          const to = yield* newDestination
          const queuedEarly = yield* Deferred.make<void>()
          const commit = yield* Deferred.make<void>()
          yield* publish(to)
          const first = yield* Queue.take(attempts)
          const slow = yield* Effect.forkChild(
            transaction(
              publish(to).pipe(
                Effect.andThen(Deferred.succeed(queuedEarly, undefined)),
                Effect.andThen(Deferred.await(commit))
              )
            )
          )
          yield* Deferred.await(queuedEarly)
          yield* first.complete(failing)
          yield* eventually(coolingOf, (count) => count === 1)
          yield* Deferred.succeed(commit, undefined)
          yield* Fiber.join(slow)
          yield* assertOnlyOtherDestinationIsSent(attempts)
          assert.strictEqual(yield* queueLength, 2)
        }).pipe(withEngine([channel], { reader: { sweepMillis: 50 } }))
      })
  )

  testWithDatabase("a cooldown that began before a restart continues after it", () =>
    Effect.gen(function* () {
      // Longer than the first engine runs after the failure: its second attempt would be the last one.
      const cooldown = { failureThreshold: 1, firstMillis: 3_000, longestMillis: 3_000 }
      const policy = quickPolicy({ cooldown, retry: { ...quickPolicy().retry, delaysMillis: [0, 0] } })
      const before = yield* respondingChannel(policy, () => failing)
      const after = yield* respondingChannel(policy, () => delivered)
      const to = yield* newDestination
      const until = yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        yield* publish(to)
        const health = yield* eventually(
          Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) => map.get(to.destination_id)),
          (now) => (now?.cooldown_until ?? null) !== null
        )
        return health?.cooldown_until?.epochMilliseconds ?? Infinity
      }).pipe(withEngine([before.channel]))
      yield* Effect.gen(function* () {
        yield* Queue.take(after.sent)
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, until - 50)
        yield* awaitRecords(to, allHaveStatus("delivered"))
      }).pipe(withEngine([after.channel]))
    })
  )
})
