import { assert, describe } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber, Queue } from "effect"
import { transaction } from "../../../../src/server/store/Database/transaction.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { SHARDS } from "../../../../src/server/delivery/Delivery/Shards.ts"
import {
  all,
  answering,
  delivered,
  destination,
  failing,
  heldChannel,
  onlyAnotherIsSent,
  patient,
  publish,
  queued,
  quick,
  records,
  testOnStore,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

/** The channel's destinations that cool down, as the engine counts them. */
const coolingOf = Effect.flatMap(Delivery, ({ figures }) =>
  Effect.map(figures, ({ channels }) => channels.get("held")?.cooling)
)

describe("Delivery, during cooldowns", () => {
  testOnStore("leaves a destination alone that fails again and again, then sends one probe", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 3, firstMillis: 2_000, longestMillis: 2_000 }
      const retry = { ...quick().retry, delaysMillis: [0, 0, 0, 0, 0, 0, 0, 0] }
      const { attempts, channel } = yield* heldChannel(quick({ concurrency: 1, cooldown, retry }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        const health = Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) =>
          map.get(to.destination_id)
        )
        yield* publish(to, 6)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).end(failing)
        const third = yield* Queue.take(attempts)
        const failedAt = (yield* DateTime.now).epochMilliseconds
        yield* third.end(failing)
        const cooling = yield* eventually(health, (now) => (now?.cooldown_until ?? null) !== null)
        assert.strictEqual(cooling?.consecutive_failures, 3)
        assert.strictEqual(cooling?.pending_deliveries, 6)
        // Another destination is not held up, so time passes here without an attempt at the first.
        const other = yield* destination
        yield* publish(other)
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(other, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        const probe = yield* Queue.take(attempts)
        assert.strictEqual(probe.parcel.destination_id, to.destination_id)
        // A millisecond aside: the cooldown runs on another clock of this machine.
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, failedAt + cooldown.firstMillis - 1)
        yield* publish(other)
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* eventually(delivery.list(other.org_id, other.destination_id), all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        yield* probe.end(delivered)
        for (let i = 0; i < 5; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(to, all("delivered"))
        assert.strictEqual((yield* health)?.consecutive_failures, 0)
        assert.strictEqual((yield* health)?.cooldown_until, null)
      }).pipe(withEngine([channel]))
    })
  )

  testOnStore("finds again by the sweep who was let go for a cooldown, and who for a late retry", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 2, firstMillis: 800, longestMillis: 800 }
      const retry = { ...quick().retry, delaysMillis: [0, 0, 0, 0], jitter: 0 }
      const cooling = yield* heldChannel(quick({ concurrency: 1, cooldown, retry }))
      const late = yield* heldChannel(
        quick({ cooldown: patient, retry: { ...retry, delaysMillis: [0, 800] } })
      )
      const channels = [cooling.channel, { ...late.channel, name: "late" }]
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        // So many that some share a shard.
        const others = yield* Effect.replicateEffect(destination, SHARDS + 4)
        yield* publish(to, 3)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(cooling.attempts)).end(failing)
        const health = yield* eventually(
          Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) => map.get(to.destination_id)),
          (now) => (now?.cooldown_until ?? null) !== null
        )
        for (const other of others) yield* publish(other, 1, "late")
        const first = yield* Queue.takeN(late.attempts, others.length)
        const failedAt = (yield* DateTime.now).epochMilliseconds
        for (const held of first) yield* held.end(failing)
        // What is new waits as well, also where it is handed over.
        yield* publish(to)
        const probe = yield* Queue.take(cooling.attempts)
        const until = health?.cooldown_until?.epochMilliseconds ?? Infinity
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, until - 50)
        const second = yield* Queue.takeN(late.attempts, others.length)
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, failedAt + 750)
        for (const held of second) yield* held.end(delivered)
        yield* probe.end(delivered)
        for (let i = 0; i < 3; i++) yield* (yield* Queue.take(cooling.attempts)).end(delivered)
        yield* records(to, all("delivered"))
        for (const other of others) yield* records(other, all("delivered"))
      }).pipe(withEngine(channels, { reader: { sweepMillis: 50 } }))
    })
  )

  testOnStore("counts whom it let go for a cooldown, and sends them nothing that is new", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 1, firstMillis: 600_000, longestMillis: 600_000 }
      const { attempts, channel } = yield* heldChannel(quick({ cooldown }))
      yield* Effect.gen(function* () {
        const to = yield* Effect.replicateEffect(destination, 3)
        for (const one of to) yield* publish(one)
        for (const held of yield* Queue.takeN(attempts, 3)) yield* held.end(failing)
        yield* eventually(coolingOf, (count) => count === 3)
        for (const one of to) yield* publish(one)
        yield* onlyAnotherIsSent(attempts)
      }).pipe(withEngine([channel], { reader: { sweepMillis: 50 } }))
    })
  )

  testOnStore(
    "sends nothing to who was let go while a transaction was on its way that knows nothing of it yet",
    () =>
      Effect.gen(function* () {
        const cooldown = { failureThreshold: 1, firstMillis: 600_000, longestMillis: 600_000 }
        const { attempts, channel } = yield* heldChannel(quick({ cooldown }))
        yield* Effect.gen(function* () {
          const to = yield* destination
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
          yield* first.end(failing)
          yield* eventually(coolingOf, (count) => count === 1)
          yield* Deferred.succeed(commit, undefined)
          yield* Fiber.join(slow)
          yield* onlyAnotherIsSent(attempts)
          assert.strictEqual(yield* queued, 2)
        }).pipe(withEngine([channel], { reader: { sweepMillis: 50 } }))
      })
  )

  testOnStore("waits for a cooldown that began before the process did", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 1, firstMillis: 700, longestMillis: 700 }
      const policy = quick({ cooldown, retry: { ...quick().retry, delaysMillis: [0, 0] } })
      const before = yield* answering(policy, () => failing)
      const after = yield* answering(policy, () => delivered)
      const to = yield* destination
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
        yield* records(to, all("delivered"))
      }).pipe(withEngine([after.channel]))
    })
  )
})
