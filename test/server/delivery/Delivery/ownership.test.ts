import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { monotonicMillis } from "../../../../src/server/concurrency/monotonicMillis.ts"
import { defaultLease, makeShards } from "../../../../src/server/delivery/Delivery/Shards.ts"
import type { ShardStore } from "../../../../src/server/delivery/Delivery/ShardStore.ts"

/** The leases of a replica that owns shard 19, in a store of which the test sets the epoch and how long a renewal takes. */
const replica = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const stored = { epoch: 1, hasClaimed: false, renewalMillis: 0, released: new Array<number>() }
  const store: ShardStore = {
    heartbeat: () =>
      Effect.as(TestClock.adjust(stored.renewalMillis), {
        peers: 0,
        rank: 0,
        epochs: new Map(stored.hasClaimed ? [[19, stored.epoch]] : [])
      }),
    claim: () =>
      Effect.sync(() => {
        if (stored.hasClaimed) return []
        stored.hasClaimed = true
        return [{ shard: 19, epoch: stored.epoch, watermark: 0 }]
      }),
    release: (shards) => Effect.sync(() => void stored.released.push(...shards)),
    deregister: Effect.void,
    endLease: Effect.void
  }
  const { canStart, owned, rebalance } = makeShards(store, clock, defaultLease)
  yield* rebalance
  const current = () => owned.get(19) ?? assert.fail("shard 19 is owned")
  return {
    stored,
    rebalance,
    current,
    canStart: (one: ReturnType<typeof current>) => canStart(one, monotonicMillis(clock))
  }
})

/** How long after a renewal an attempt may start. */
const { leaseMillis, marginMillis } = defaultLease
const startMillis = leaseMillis - marginMillis

describe("Ownership of a shard", () => {
  it.effect("no attempt starts when the lease may end before its result is recorded", () =>
    Effect.gen(function* () {
      const { canStart, current, rebalance } = yield* replica
      yield* TestClock.adjust(startMillis)
      assert.isTrue(canStart(current()))
      yield* TestClock.adjust(1)
      assert.isFalse(canStart(current()))
      yield* rebalance
      assert.isTrue(canStart(current()))
    })
  )

  it.effect("a renewal counts from before it was sent, however late its response is", () =>
    Effect.gen(function* () {
      const { canStart, current, rebalance, stored } = yield* replica
      stored.renewalMillis = startMillis
      yield* rebalance
      assert.isTrue(canStart(current()))
      yield* TestClock.adjust(1)
      assert.isFalse(canStart(current()))
    })
  )

  it.effect("a shard that was lost and gained again starts nothing that was read before", () =>
    Effect.gen(function* () {
      const { canStart, current, rebalance, stored } = yield* replica
      const before = current()
      // Another replica owned it meanwhile, so the epoch was raised twice.
      stored.epoch = 3
      stored.hasClaimed = false
      yield* rebalance
      assert.strictEqual(current().epoch, 3)
      assert.isFalse(canStart(before))
      assert.isTrue(canStart(current()))
    })
  )

  it.effect("a shard that the store has under an unknown epoch is released, and starts nothing", () =>
    Effect.gen(function* () {
      const { canStart, current, rebalance, stored } = yield* replica
      const before = current()
      // By a claim whose response was lost.
      stored.epoch = 2
      stored.hasClaimed = true
      yield* rebalance
      assert.deepStrictEqual(stored.released, [19])
      assert.isFalse(canStart(before))
    })
  )
})
