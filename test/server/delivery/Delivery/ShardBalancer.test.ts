import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { runWorker, startWorkers } from "../../../../src/server/concurrency/Worker.ts"
import { makeShardBalancer } from "../../../../src/server/delivery/Delivery/ShardBalancer.ts"
import type { Shards } from "../../../../src/server/delivery/Delivery/Shards.ts"

const RENEW_MILLIS = 1_500

/** A balancer that runs, and how many times it has renewed the leases. */
const start = Effect.gen(function* () {
  let renewals = 0
  const shards: Shards = {
    owned: new Map(),
    positions: new Map(),
    canStart: () => false,
    hasPeers: () => false,
    rebalance: Effect.sync(() => {
      renewals++
      return []
    }),
    startDraining: Effect.void,
    releaseDrained: Effect.succeed([]),
    releaseAll: Effect.void
  }
  const balancer = makeShardBalancer(
    shards,
    yield* Clock.Clock,
    {
      dispatcher: { dropLostLanes: () => {}, wakeAll: () => {} },
      progress: { isStuck: () => false },
      reader: { requestSweep: () => {} },
      wakeups: { notifyFreeShards: Effect.void }
    },
    RENEW_MILLIS
  )
  yield* startWorkers([runWorker(balancer.worker)])
  yield* TestClock.adjust(0)
  return { balancer, renewals: () => renewals }
})

describe("ShardBalancer", () => {
  it.effect("refused results cause at most one renewal between two regular ones", () =>
    Effect.gen(function* () {
      const { balancer, renewals } = yield* start
      for (const at of [0, 300, 600]) {
        balancer.confirm()
        yield* TestClock.adjust(at === 600 ? 0 : 300)
      }
      assert.strictEqual(renewals(), 1)
      // The regular one follows the last by its interval.
      yield* TestClock.adjust(RENEW_MILLIS - 600)
      assert.strictEqual(renewals(), 2)
      balancer.confirm()
      yield* TestClock.adjust(0)
      assert.strictEqual(renewals(), 3)
    }).pipe(Effect.scoped)
  )
})
