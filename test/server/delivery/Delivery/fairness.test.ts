import { assert, describe } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { type Channel, Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { defaultSlots } from "../../../../src/server/delivery/Delivery/Slots.ts"
import {
  all,
  delivered,
  destination,
  failing,
  heldChannel,
  patient,
  publish,
  queued,
  quick,
  records,
  testOnStore,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("Delivery, between many", () => {
  testOnStore(
    "has no more under way at one destination than its policy allows, nor of one organization",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* heldChannel(quick({ concurrency: 4 }))
        const slots = { slots: 64, retrySlots: 48, organizationSlots: 6 }
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const one = yield* destination
          const two = { ...one, destination_id: (yield* destination).destination_id }
          const other = yield* destination
          yield* publish(one, 10)
          const first = yield* Queue.takeN(attempts, 4)
          yield* publish(two, 10)
          const second = yield* Queue.takeN(attempts, 2)
          yield* publish(other, 1)
          const third = yield* Queue.take(attempts)
          assert.strictEqual(third.parcel.org_id, other.org_id)
          yield* third.end(delivered)
          yield* records(other, all("delivered"))
          assert.strictEqual(yield* Queue.size(attempts), 0)
          const list = yield* delivery.list(one.org_id, one.destination_id)
          assert.lengthOf(
            list.filter((record) => record.status === "delivering"),
            4
          )
          for (const held of [...first, ...second]) yield* held.end(delivered)
          for (let i = 0; i < 14; i++) yield* (yield* Queue.take(attempts)).end(delivered)
          yield* records(one, all("delivered"))
          yield* records(two, all("delivered"))
        }).pipe(withEngine([channel], { slots }))
      })
  )

  testOnStore(
    "lets ten thousand deliveries to a destination that hangs hold up nobody, not in its own organization either",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* heldChannel(quick({ capacity: 20_000, deadlineMillis: 600_000 }))
        yield* Effect.gen(function* () {
          const hanging = yield* destination
          const other = { ...hanging, destination_id: (yield* destination).destination_id }
          for (let count = 0; count < 20; count++) yield* publish(hanging, 500)
          // None of these ever ends.
          const stuck = yield* Queue.takeN(attempts, 8)
          assert.isTrue(stuck.every(({ parcel }) => parcel.destination_id === hanging.destination_id))
          for (let count = 0; count < 50; count++) {
            const [event_id] = yield* publish(other)
            const next = yield* Queue.take(attempts)
            assert.strictEqual(next.parcel.event_id, event_id)
            yield* next.end(delivered)
          }
          yield* records(other, all("delivered"))
          assert.strictEqual(yield* Queue.size(attempts), 0)
        }).pipe(withEngine([channel], { drainMillis: 100 }))
      })
  )

  testOnStore("lets forty receivers of four organizations that take their time hold up nobody else", () =>
    Effect.gen(function* () {
      const held = yield* heldChannel(quick({ deadlineMillis: 600_000 }))
      const slow = new Set<string>()
      const channel: Channel = {
        ...held.channel,
        load: (parcel) =>
          slow.has(parcel.destination_id)
            ? held.channel.load(parcel)
            : Effect.succeed(Effect.succeed(delivered))
      }
      yield* Effect.gen(function* () {
        for (let count = 0; count < 4; count++) {
          const { org_id } = yield* destination
          for (const { destination_id } of yield* Effect.replicateEffect(destination, 10)) {
            slow.add(destination_id)
            yield* publish({ org_id, destination_id }, 20)
          }
        }
        // As many as their organizations may have under way, and none of these ends.
        yield* eventually(Queue.size(held.attempts), (count) => count === 4 * defaultSlots.organizationSlots)
        const fast = yield* Effect.replicateEffect(destination, 5)
        for (const to of fast) yield* publish(to, 40)
        for (const to of fast) yield* records(to, (list) => list.length === 40 && all("delivered")(list))
      }).pipe(withEngine([channel], { drainMillis: 100 }))
    })
  )

  testOnStore("keeps room for first attempts while retries wait", () =>
    Effect.gen(function* () {
      const retry = { ...quick().retry, delaysMillis: [0, 0, 0] }
      const { attempts, channel } = yield* heldChannel(quick({ retry, cooldown: patient }))
      const slots = { slots: 4, retrySlots: 2, organizationSlots: 4 }
      yield* Effect.gen(function* () {
        const failed = yield* destination
        yield* publish(failed, 4)
        for (const held of yield* Queue.takeN(attempts, 4)) yield* held.end(failing)
        const retries = yield* Queue.takeN(attempts, 2)
        const fresh = yield* destination
        yield* publish(fresh, 2)
        for (const held of yield* Queue.takeN(attempts, 2)) {
          assert.strictEqual(held.parcel.destination_id, fresh.destination_id)
          yield* held.end(delivered)
        }
        yield* records(fresh, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        for (const held of retries) yield* held.end(delivered)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(failed, all("delivered"))
      }).pipe(withEngine([channel], { slots }))
    })
  )

  testOnStore("has no more of a channel under way than its policy allows, and lets the others pass", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ slots: 3 }))
      const other: Channel = { ...channel, name: "other" }
      yield* Effect.gen(function* () {
        const to = yield* Effect.replicateEffect(destination, 6)
        yield* Effect.forEach(to, (one) => publish(one), { discard: true })
        const first = yield* Queue.takeN(attempts, 3)
        const free = yield* destination
        yield* publish(free, 1, "other")
        const passed = yield* Queue.take(attempts)
        assert.strictEqual(passed.parcel.destination_id, free.destination_id)
        yield* passed.end(delivered)
        yield* records(free, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        for (const held of first) yield* held.end(delivered)
        for (const held of yield* Queue.takeN(attempts, 3)) yield* held.end(delivered)
        yield* eventually(queued, (count) => count === 0)
      }).pipe(withEngine([channel, other]))
    })
  )
})
