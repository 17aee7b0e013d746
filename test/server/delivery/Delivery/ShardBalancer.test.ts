import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import { runWorker, startWorkers } from "../../../../src/server/concurrency/Worker.ts"
import {
  makeShardBalancer,
  REBALANCE_TIMEOUT_MILLIS
} from "../../../../src/server/delivery/Delivery/ShardBalancer.ts"
import type { OwnedShard, Shards } from "../../../../src/server/delivery/Delivery/Shards.ts"
import type { Wakeups } from "../../../../src/server/delivery/Delivery/Wakeups.ts"
import { ownedShard } from "../../../support/delivery.ts"

const RENEW_MILLIS = 1_500

/** A balancer over shards that `rebalance` changes, and what it did. */
const makeBalancer = Effect.fnUntraced(function* (
  rebalance: Shards["rebalance"],
  {
    isStuck = () => false,
    notify = Effect.void,
    owned = new Map()
  }: {
    readonly isStuck?: () => boolean
    readonly notify?: Wakeups["notifyFreeShards"]
    readonly owned?: Shards["owned"]
  } = {}
) {
  const did: Array<string> = []
  const step = (name: string) => () => void did.push(name)
  const balancer = makeShardBalancer(
    {
      owned,
      canStart: () => false,
      suspend: step("suspend"),
      hasPeers: () => false,
      rebalance: Effect.andThen(Effect.sync(step("rebalance")), rebalance),
      startDraining: Effect.void,
      releaseDrained: Effect.succeed([]),
      releaseAll: Effect.void
    },
    yield* Clock.Clock,
    {
      dispatcher: { dropLostLanes: step("dropLostLanes"), wakeAll: step("wakeAll") },
      progress: { isStuck },
      reader: { requestSweep: step("requestSweep") },
      wakeups: { notifyFreeShards: Effect.andThen(Effect.sync(step("notifyFreeShards")), notify) }
    },
    RENEW_MILLIS
  )
  /** What the balancer did since it was last asked. */
  const done = () => did.splice(0)
  return { balancer, done }
})

/** A balancer that runs, and how many times it has renewed the leases. */
const start = Effect.gen(function* () {
  let renewals = 0
  const { balancer } = yield* makeBalancer(
    Effect.sync(() => {
      renewals++
      return []
    })
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

  it.effect("released shards are announced to the other replicas, and nothing is announced without one", () =>
    Effect.gen(function* () {
      const released: Array<ReadonlyArray<number>> = [[], [3], []]
      const { balancer, done } = yield* makeBalancer(Effect.sync(() => released.shift() ?? []))
      for (const announces of [false, true, false]) {
        yield* balancer.rebalance
        assert.deepStrictEqual(done(), [
          "rebalance",
          "dropLostLanes",
          ...(announces ? ["notifyFreeShards"] : []),
          "wakeAll"
        ])
      }
    })
  )

  it.effect("a hanging notification ends after half a second, and deliveries continue", () =>
    Effect.gen(function* () {
      const { balancer, done } = yield* makeBalancer(Effect.succeed([3]), { notify: Effect.never })
      const rebalancing = yield* Effect.forkChild(balancer.rebalance)
      yield* TestClock.adjust(499)
      assert.deepStrictEqual(done(), ["rebalance", "dropLostLanes", "notifyFreeShards"])
      yield* TestClock.adjust(1)
      yield* Fiber.join(rebalancing)
      assert.deepStrictEqual(done(), ["wakeAll"])
    })
  )

  it.effect("a gained shard is read at once, also if the rebalancing failed halfway or timed out", () =>
    Effect.gen(function* () {
      const owned = new Map<number, OwnedShard>()
      const gain = Effect.sync(() => {
        owned.set(owned.size, { ...ownedShard(0), shard: owned.size })
      })
      let ending: Shards["rebalance"] = Effect.succeed([])
      const { balancer, done } = yield* makeBalancer(
        Effect.andThen(
          gain,
          Effect.suspend(() => ending)
        ),
        { owned }
      )
      yield* balancer.rebalance
      assert.deepStrictEqual(done(), ["rebalance", "dropLostLanes", "requestSweep", "wakeAll"])

      const fault = new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause: "lost" }) })
      ending = Effect.fail(fault)
      assert.strictEqual(yield* Effect.flip(balancer.rebalance), fault)
      assert.deepStrictEqual(done(), ["rebalance", "dropLostLanes", "requestSweep"])

      ending = Effect.never
      const hanging = yield* Effect.forkChild(Effect.flip(balancer.rebalance))
      yield* TestClock.adjust(REBALANCE_TIMEOUT_MILLIS)
      assert.strictEqual((yield* Fiber.join(hanging))._tag, "TimeoutError")
      assert.deepStrictEqual(done(), ["rebalance", "dropLostLanes", "requestSweep"])
    })
  )

  it.effect("leases are not renewed while the engine is stuck", () =>
    Effect.gen(function* () {
      let stuck = true
      const { balancer, done } = yield* makeBalancer(Effect.succeed([3]), { isStuck: () => stuck })
      yield* balancer.rebalance
      assert.deepStrictEqual(done(), [])
      stuck = false
      yield* balancer.rebalance
      assert.deepStrictEqual(done(), ["rebalance", "dropLostLanes", "notifyFreeShards", "wakeAll"])
    })
  )
})
