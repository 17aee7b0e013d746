import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import fc from "fast-check"
import { healthy } from "../../../../src/domain/delivery/Cooldown.ts"
import { DeliveryId, EventId, OrgId } from "../../../../src/domain/Ids.ts"
import { defaultChannelPolicy } from "../../../../src/server/delivery/Delivery.ts"
import type { QueuedDelivery } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { Lane } from "../../../../src/server/delivery/Delivery/Lane.ts"
import { SHARDS, shardOf } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import { ownedShard } from "../../../support/delivery.ts"

const id = "0".repeat(32)
const item = (seq: number, due: number, retry: boolean): QueuedDelivery => ({
  shard: 0,
  seq,
  dueAt: due,
  expiresAt: Infinity,
  org_id: OrgId.make(`org_${id}`),
  destination_id: `nep_${id}`,
  delivery_id: DeliveryId.make(`ndl_${id}`),
  event_id: EventId.make(`evt_${id}`),
  attempt: retry ? 1 : 0,
  first_attempt: 0
})

const channel = {
  name: "test",
  ids: DeliveryId,
  policy: defaultChannelPolicy,
  load: () => Effect.never,
  expire: () => Effect.succeed(0)
}

const arrivals = fc
  .array(fc.record({ due: fc.nat({ max: 50 }), retry: fc.boolean() }), { minLength: 1, maxLength: 100 })
  .map((list) => list.map(({ due, retry }, seq) => item(seq, due, retry)))

const byDue = (a: QueuedDelivery, b: QueuedDelivery) => a.dueAt - b.dueAt || a.seq - b.seq

describe("Lane", () => {
  it("a lane keeps the deliveries that are due first, in order, and notes when there are more", () => {
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 64 }), (list, room) => {
        const lane = new Lane("lane", channel, ownedShard(0), item(0, 0, false), healthy)
        const out = list.map((one) => lane.insert(one, room)).filter((one) => one !== undefined)
        assert.deepStrictEqual(lane.waiting, list.toSorted(byDue).slice(0, room))
        assert.strictEqual(out.length + lane.waiting.length, list.length)
        assert.strictEqual(lane.hasMore, out.length > 0)
      })
    )
  })
})

describe("shardOf", () => {
  it("a destination is in the shard in which its queued rows were placed, and destinations spread evenly", () => {
    assert.strictEqual(shardOf("nep_0192f0c1a2b37c4d8e9fa0b1c2d3e4f5"), 233)
    const counts = Array.from({ length: SHARDS }, () => 0)
    for (let index = 0; index < 64_000; index++) {
      const shard = shardOf(`nep_${index.toString(16).padStart(32, "0")}`)
      counts[shard] = (counts[shard] ?? Number.NaN) + 1
    }
    assert.isAtLeast(Math.min(...counts), 125)
    assert.isAtMost(Math.max(...counts), 500)
  })
})
