import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { DeliveryId } from "../../../../src/domain/Ids.ts"
import { defaultChannelPolicy } from "../../../../src/server/delivery/Delivery.ts"
import type { QueueRow } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { makeLanes } from "../../../../src/server/delivery/Delivery/Lanes.ts"
import { makeReadTracker } from "../../../../src/server/delivery/Delivery/ReadTracker.ts"
import { ownedShard, queueRow } from "../../../support/delivery.ts"

const HORIZON = 10_000
const row = (change: Partial<QueueRow> = {}) => queueRow({ channel: "test", ...change })

const cooling = (millis: number) => ({ consecutive_failures: 5, cooldown_round: 1, cooldown_ms: millis })

const setUp = () => {
  const owned = new Map([[0, ownedShard(0)]])
  const channel = {
    name: "test",
    ids: DeliveryId,
    policy: defaultChannelPolicy,
    load: () => Effect.never,
    expire: () => Effect.succeed(0)
  }
  const reads = makeReadTracker()
  const lanes = makeLanes(new Map([["test", channel]]), { owned }, reads, HORIZON, () => {})
  return { lanes, owned, reads, inMemory: () => [...lanes.all()].length }
}

describe("Lanes", () => {
  it("rows due within the horizon are accepted, later ones stay in the database", () => {
    const { inMemory, lanes } = setUp()
    assert.isUndefined(lanes.accept(row({ wait_ms: HORIZON + 1 }), 0, 0))
    assert.isUndefined(lanes.accept(row(cooling(HORIZON + 1)), 0, 0))
    assert.isUndefined(lanes.accept(row({ wait_ms: HORIZON + 1, ...cooling(5) }), 0, 0))
    assert.strictEqual(inMemory(), 0)
    assert.isDefined(lanes.accept(row({ wait_ms: HORIZON }), 0, 0))
    assert.isDefined(lanes.accept(row({ seq: 2, destination_id: "other", ...cooling(HORIZON) }), 0, 0))
    assert.strictEqual(inMemory(), 2)
    // A delivery of a lane that is in memory anyway is accepted however late it is due.
    assert.isDefined(lanes.accept(row({ seq: 3, wait_ms: 2 * HORIZON }), 0, 0))
  })

  it("a lane idle beyond the horizon is dropped, and its rows are accepted again later", () => {
    const { inMemory, lanes } = setUp()
    const lane = lanes.accept(row(), 0, 0)
    assert.isDefined(lane)
    if (lane === undefined) return
    assert.isFalse(lanes.dropIfIdleUntil(lane, HORIZON, 0))
    assert.isTrue(lanes.dropIfIdleUntil(lane, HORIZON + 1, 0))
    assert.strictEqual(inMemory(), 0)
    assert.isDefined(lanes.accept(row(), 1, 1))
  })

  it("a lane is kept until its health is stored and no read in flight can return older health", () =>
    Effect.runPromise(
      Effect.gen(function* () {
        const { inMemory, lanes, reads } = setUp()
        const lane = lanes.accept(row(), 0, 0)
        assert.isDefined(lane)
        if (lane === undefined) return
        const until = 10 * HORIZON
        lanes.setHealth(lane, { _tag: "CoolingDown", failures: 5, round: 1, until })
        assert.isFalse(lanes.dropIfIdleUntil(lane, until, 0))
        const stale = lanes.unsavedHealth(10)
        lanes.setHealth(lane, { _tag: "CoolingDown", failures: 6, round: 1, until })
        // The stored health is older than the current one.
        assert.deepStrictEqual(lanes.acknowledgeHealth(stale), [])
        assert.isFalse(lanes.dropIfIdleUntil(lane, until, 0))
        const gate = yield* Deferred.make<void>()
        const read = yield* Effect.forkChild(
          reads.track(Deferred.await(gate), () => {}),
          { startImmediately: true }
        )
        assert.deepStrictEqual(lanes.acknowledgeHealth(lanes.unsavedHealth(10)), [lane])
        assert.isFalse(lanes.dropIfIdleUntil(lane, until, 0))
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(read)
        assert.isTrue(lanes.dropIfIdleUntil(lane, until, 0))
        assert.strictEqual(inMemory(), 0)
      })
    ))

  it("a lane with an attempt that is not recorded yet is kept", () => {
    const { lanes } = setUp()
    const lane = lanes.accept(row(), 0, 0)
    const item = lane?.waiting[0]
    assert.isDefined(lane)
    assert.isDefined(item)
    if (lane === undefined || item === undefined) return
    lane.remove(item)
    assert.isFalse(lanes.dropIfIdleUntil(lane, 10 * HORIZON, 0))
    lanes.unload(lane, item)
    assert.deepStrictEqual([...lanes.all()], [])
  })

  it("an emptied lane keeps counting failures while a read from before the failure is in flight", () => {
    const { inMemory, lanes, reads } = setUp()
    const lane = lanes.accept(row(), 0, 0)
    const item = lane?.waiting[0]
    assert.isDefined(item)
    if (lane === undefined || item === undefined) return
    lane.remove(item)
    const end = reads.begin()
    const health = { _tag: "Healthy", failures: 1 } as const
    lanes.setHealth(lane, health)
    lanes.acknowledgeHealth(lanes.unsavedHealth(10))
    lanes.unload(lane, item)
    assert.strictEqual(lanes.accept(row({ seq: 2 }), 0, 0)?.health, health)
    lane.remove(lane.waiting[0]!)
    end()
    lanes.unload(lane, item)
    assert.strictEqual(inMemory(), 0)
  })

  it("a shard is kept until the health of its destinations is stored", () => {
    const { lanes, owned } = setUp()
    const shard = owned.get(0)
    const lane = lanes.accept(row(), 0, 0)
    assert.isDefined(lane)
    if (lane === undefined) return
    lanes.setHealth(lane, { _tag: "Healthy", failures: 1 })
    lanes.setHealth(lane, { _tag: "Healthy", failures: 2 })
    assert.strictEqual(shard?.unfinished, 1)
    lanes.acknowledgeHealth(lanes.unsavedHealth(10))
    assert.strictEqual(shard?.unfinished, 0)
    lanes.setHealth(lane, { _tag: "Healthy", failures: 3 })
    lanes.drop(lane)
    assert.strictEqual(shard?.unfinished, 0)
  })

  it("a lost and regained shard starts without the lanes it had before", () => {
    const { inMemory, lanes, owned } = setUp()
    const before = lanes.accept(row(), 0, 0)
    const abandoned = before?.waiting[0]
    lanes.accept(row({ seq: 2 }), 0, 0)
    if (before === undefined || abandoned === undefined) return assert.fail("a lane with an item")
    before.remove(abandoned)
    lanes.abandon(before, abandoned)
    assert.isUndefined(lanes.accept(row(), 0, 0))
    owned.set(0, { ...ownedShard(0), epoch: 2 })
    assert.isFalse(lanes.has(before))
    lanes.dropLost()
    assert.strictEqual(inMemory(), 0)
    const after = lanes.accept(row(), 0, 0)
    assert.deepStrictEqual(
      after?.waiting.map((item) => item.seq),
      [1]
    )
    assert.isTrue(after !== undefined && lanes.has(after))
    assert.isDefined(lanes.accept(row({ seq: 2 }), 0, 0))
  })

  it("a row is not accepted from a read that began before its shard was lost and claimed again", () => {
    const { lanes, owned } = setUp()
    owned.set(0, { ...ownedShard(0), epoch: 3, claimedAt: 500 })
    // Another owner may have sent it between the read and the claim.
    assert.isUndefined(lanes.accept(row(), 600, 400))
    assert.isDefined(lanes.accept(row(), 600, 501))
  })

  it("beyond a hundred thousand deliveries in memory, a destination holds one, and reads the rest later", () => {
    const { lanes } = setUp()
    const any = row()
    for (let seq = 1; seq <= 100_000; seq++) {
      lanes.accept({ ...any, seq, destination_id: `destination ${seq % 2_000} 0` }, 0, 0)
    }
    assert.deepStrictEqual(lanes.size(), { lanes: 2_000, deliveries: 100_000 })
    const late = [1, 2, 3].map((nth) =>
      lanes.accept({ ...any, seq: 100_000 + nth, destination_id: "late 0" }, 0, 0)
    )
    assert.deepStrictEqual(lanes.size(), { lanes: 2_001, deliveries: 100_001 })
    assert.deepInclude(late[0], { hasMore: true })
  })
})
