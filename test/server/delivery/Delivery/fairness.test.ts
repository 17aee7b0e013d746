import { assert, describe } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { type Channel, Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { defaultSlots } from "../../../../src/server/delivery/Delivery/Slots.ts"
import {
  allHaveStatus,
  delivered,
  newDestination,
  failing,
  manualChannel,
  noCooldown,
  publish,
  queueLength,
  quickPolicy,
  awaitRecords,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("Fairness", () => {
  testWithDatabase("attempts in flight are limited per destination and per organization", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 4 }))
      const slots = { slots: 64, retrySlots: 48, organizationSlots: 6 }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const one = yield* newDestination
        const two = { ...one, destination_id: (yield* newDestination).destination_id }
        const other = yield* newDestination
        yield* publish(one, 10)
        const first = yield* Queue.takeN(attempts, 4)
        yield* publish(two, 10)
        const second = yield* Queue.takeN(attempts, 2)
        yield* publish(other, 1)
        const third = yield* Queue.take(attempts)
        assert.strictEqual(third.delivery.org_id, other.org_id)
        yield* third.complete(delivered)
        yield* awaitRecords(other, allHaveStatus("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        const list = yield* delivery.list(one.org_id, one.destination_id)
        assert.lengthOf(
          list.filter((record) => record.status === "delivering"),
          4
        )
        for (const attempt of [...first, ...second]) yield* attempt.complete(delivered)
        for (let i = 0; i < 14; i++) yield* (yield* Queue.take(attempts)).complete(delivered)
        yield* awaitRecords(one, allHaveStatus("delivered"))
        yield* awaitRecords(two, allHaveStatus("delivered"))
      }).pipe(withEngine([channel], { slots }))
    })
  )

  testWithDatabase(
    "ten thousand deliveries to a hanging destination do not delay others, not even of the same organization",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(
          quickPolicy({ queueLimit: 20_000, deadlineMillis: 600_000 })
        )
        yield* Effect.gen(function* () {
          const hanging = yield* newDestination
          const other = { ...hanging, destination_id: (yield* newDestination).destination_id }
          for (let count = 0; count < 20; count++) yield* publish(hanging, 500)
          // None of these ever ends.
          const stuck = yield* Queue.takeN(attempts, 8)
          assert.isTrue(stuck.every(({ delivery }) => delivery.destination_id === hanging.destination_id))
          for (let count = 0; count < 50; count++) {
            const [event_id] = yield* publish(other)
            const next = yield* Queue.take(attempts)
            assert.strictEqual(next.delivery.event_id, event_id)
            yield* next.complete(delivered)
          }
          yield* awaitRecords(other, allHaveStatus("delivered"))
          assert.strictEqual(yield* Queue.size(attempts), 0)
        }).pipe(withEngine([channel], { drainMillis: 100 }))
      })
  )

  testWithDatabase("forty slow receivers of four organizations do not delay other organizations", () =>
    Effect.gen(function* () {
      const held = yield* manualChannel(quickPolicy({ deadlineMillis: 600_000 }))
      const slow = new Set<string>()
      const channel: Channel = {
        ...held.channel,
        load: (ref, admit) =>
          slow.has(ref.destination_id)
            ? held.channel.load(ref, admit)
            : Effect.succeed(() => Effect.succeed(delivered))
      }
      yield* Effect.gen(function* () {
        for (let count = 0; count < 4; count++) {
          const { org_id } = yield* newDestination
          for (const { destination_id } of yield* Effect.replicateEffect(newDestination, 10)) {
            slow.add(destination_id)
            yield* publish({ org_id, destination_id }, 20)
          }
        }
        // As many as their organizations may have in flight; none of these ends.
        yield* eventually(Queue.size(held.attempts), (count) => count === 4 * defaultSlots.organizationSlots)
        const fast = yield* Effect.replicateEffect(newDestination, 5)
        for (const to of fast) yield* publish(to, 40)
        for (const to of fast)
          yield* awaitRecords(to, (list) => list.length === 40 && allHaveStatus("delivered")(list))
      }).pipe(withEngine([channel], { drainMillis: 100 }))
    })
  )

  testWithDatabase("slots are reserved for first attempts while retries wait", () =>
    Effect.gen(function* () {
      const retry = { ...quickPolicy().retry, delaysMillis: [0, 0, 0] }
      const { attempts, channel } = yield* manualChannel(quickPolicy({ retry, cooldown: noCooldown }))
      const slots = { slots: 4, retrySlots: 2, organizationSlots: 4 }
      yield* Effect.gen(function* () {
        const failed = yield* newDestination
        yield* publish(failed, 4)
        for (const attempt of yield* Queue.takeN(attempts, 4)) yield* attempt.complete(failing)
        const retries = yield* Queue.takeN(attempts, 2)
        const fresh = yield* newDestination
        yield* publish(fresh, 2)
        for (const attempt of yield* Queue.takeN(attempts, 2)) {
          assert.strictEqual(attempt.delivery.destination_id, fresh.destination_id)
          yield* attempt.complete(delivered)
        }
        yield* awaitRecords(fresh, allHaveStatus("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        for (const attempt of retries) yield* attempt.complete(delivered)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).complete(delivered)
        yield* awaitRecords(failed, allHaveStatus("delivered"))
      }).pipe(withEngine([channel], { slots }))
    })
  )

  testWithDatabase("attempts in flight are limited per channel, and other channels are not delayed", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ slots: 3 }))
      const other: Channel = { ...channel, name: "other" }
      yield* Effect.gen(function* () {
        const to = yield* Effect.replicateEffect(newDestination, 6)
        yield* Effect.forEach(to, (one) => publish(one), { discard: true })
        const first = yield* Queue.takeN(attempts, 3)
        const free = yield* newDestination
        yield* publish(free, 1, "other")
        const passed = yield* Queue.take(attempts)
        assert.strictEqual(passed.delivery.destination_id, free.destination_id)
        yield* passed.complete(delivered)
        yield* awaitRecords(free, allHaveStatus("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        for (const attempt of first) yield* attempt.complete(delivered)
        for (const attempt of yield* Queue.takeN(attempts, 3)) yield* attempt.complete(delivered)
        yield* eventually(queueLength, (count) => count === 0)
      }).pipe(withEngine([channel, other]))
    })
  )
})
