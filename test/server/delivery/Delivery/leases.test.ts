import { assert, describe } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Layer, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { monotonicMillis } from "../../../../src/server/concurrency/monotonicMillis.ts"
import { defaultLease, makeShards } from "../../../../src/server/delivery/Delivery/Shards.ts"
import { makeShardStore } from "../../../../src/server/delivery/Delivery/ShardStore.ts"
import { layerDedicatedPool } from "../../../../src/server/store/Database.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import {
  delivered,
  manualChannel,
  newDestination,
  publish,
  queueLength,
  quickPolicy,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

/** The leases of a replica, and whether it may start attempts of a shard. */
const replica = Effect.fnUntraced(function* (owner: string) {
  const clock = yield* Clock.Clock
  const shards = makeShards(makeShardStore(yield* SqlClient.SqlClient, owner, false), clock, defaultLease)
  const owned = (shard: number) => shards.owned.get(shard) ?? assert.fail(`shard ${shard} is owned`)
  const canStart = (shard: number) => shards.canStart(owned(shard), monotonicMillis(clock))
  return { ...shards, canStart, shard: owned }
})

describe("Leases", () => {
  testWithDatabase(
    "a replica with more than its share starts nothing from the shards it gives up, and keeps them while they have unfinished attempts",
    () =>
      Effect.gen(function* () {
        const [one, other] = [yield* replica("one"), yield* replica("other")]
        yield* one.rebalance
        yield* other.rebalance
        assert.deepStrictEqual([one.owned.size, other.owned.size], [256, 0])
        const [first, ...rest] = one.owned.keys()
        const busy = rest.at(-1)
        if (first === undefined || busy === undefined) return assert.fail("256 shards")
        one.shard(busy).unfinished = 1
        const released = yield* one.rebalance
        assert.lengthOf(released, 127)
        assert.deepStrictEqual([one.canStart(first), one.canStart(busy)], [true, false])
        yield* other.rebalance
        assert.sameMembers([...other.owned.keys()], [...released])
        one.shard(busy).unfinished = 0
        assert.deepStrictEqual(yield* one.rebalance, [busy])
        yield* other.rebalance
        assert.isTrue(other.canStart(busy))
        // It was claimed twice.
        assert.strictEqual(other.shard(busy).epoch, 2)
      })
  )

  testWithDatabase("of three replicas, two own 85 shards and one 86, and no shard is left over", () =>
    Effect.gen(function* () {
      const replicas = yield* Effect.forEach(["one", "two", "three"], replica)
      // The first round registers them, the second releases what is over a share, the third claims it.
      for (let round = 0; round < 3; round++) for (const { rebalance } of replicas) yield* rebalance
      const sizes = replicas.map(({ owned }) => owned.size)
      assert.deepStrictEqual(sizes.toSorted(), [85, 85, 86])
    })
  )

  testWithDatabase(
    "shards without an owner are not kept for a replica that is silent, though its lease has not ended",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const one = yield* replica("one")
        // Its last heartbeat was four seconds ago; it was stopped after it released its shards.
        yield* sql`
          WITH leased AS (
            INSERT INTO delivery_leases (owner, lease_until) VALUES ('silent', now() + interval '6 seconds')
          )
          INSERT INTO delivery_owners (owner, lease_until)
          VALUES ('silent', now() + ${defaultLease.leaseMillis - 4_000}::float8 * interval '1 millisecond')
        `
        yield* one.rebalance
        assert.strictEqual(one.owned.size, 256)
      })
  )

  testWithDatabase(
    "a replica whose session has ended keeps its shards if it renews its lease within a second, and else loses them",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const one = yield* Effect.provide(replica("one"), yield* Layer.build(layerDedicatedPool(1)))
        const other = yield* replica("other")
        const endSession = sql`
          SELECT pg_terminate_backend(session_pid, 10000)
          FROM delivery_leases
          WHERE owner = 'one'
        `
        const millisLeft = Effect.map(
          sql<{ readonly left: number }>`
            SELECT (extract(epoch FROM lease_until - now()) * 1000)::float8 AS left
            FROM delivery_leases
            WHERE owner = 'one'
          `,
          ([row]) => row?.left ?? 0
        )
        yield* one.rebalance
        yield* other.rebalance
        yield* one.rebalance
        yield* other.rebalance
        assert.deepStrictEqual([one.owned.size, other.owned.size], [128, 128])
        const [first = -1] = one.owned.keys()

        yield* endSession
        one.suspend()
        assert.isFalse(one.canStart(first))
        yield* other.rebalance
        assert.isAtMost(yield* millisLeft, 1_000)
        // Its connection is made again by the next statement.
        yield* Effect.retry(one.rebalance, { times: 3 })
        assert.isAbove(yield* millisLeft, 1_000)
        assert.isTrue(one.canStart(first))
        yield* other.rebalance
        assert.deepStrictEqual([one.owned.size, other.owned.size], [128, 128])

        yield* endSession
        yield* eventually(
          Effect.map(other.rebalance, () => other.owned.size),
          (size) => size === 256
        )
        yield* Effect.retry(one.rebalance, { times: 3 })
        assert.strictEqual(one.owned.size, 0)
      }).pipe(Effect.scoped)
  )

  testWithDatabase(
    "a replica that shuts down keeps its leases while it has unfinished attempts, and is left no share",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [one, other] = [yield* replica("one"), yield* replica("other")]
        yield* one.rebalance
        one.shard(3).unfinished = 1
        yield* one.startDraining
        assert.lengthOf(yield* one.releaseDrained, 255)
        yield* one.rebalance
        assert.deepStrictEqual(yield* sql`SELECT owner FROM delivery_owners`, [])
        yield* other.rebalance
        assert.deepStrictEqual([one.owned.size, other.owned.size], [1, 255])
        assert.isFalse(one.canStart(3))
        one.shard(3).unfinished = 0
        assert.deepStrictEqual(yield* one.releaseDrained, [3])
      })
  )

  testWithDatabase(
    "a renewal that the database executes late does not shorten the lease of a later one",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const one = yield* replica("one")
        yield* one.rebalance
        const longest = sql<{ readonly millis: number }>`
        SELECT (extract(epoch FROM max(lease_until) - now()) * 1000)::float8 AS millis FROM delivery_leases
      `
        // As if a renewal had been answered that began later than the next one does.
        yield* sql`UPDATE delivery_leases SET lease_until = now() + interval '18 seconds'`
        yield* one.rebalance
        assert.isAbove((yield* longest)[0]?.millis ?? 0, defaultLease.leaseMillis)
        // Before the clock of the database was set back, in contrast, leases ended much later.
        yield* sql`UPDATE delivery_leases SET lease_until = now() + interval '1 hour'`
        yield* one.rebalance
        assert.isAtMost((yield* longest)[0]?.millis ?? Infinity, defaultLease.leaseMillis)
      })
  )

  testWithDatabase("a replica whose result is refused renews its leases at once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      // Regular renewals come much later than the end of this test.
      const lease = { leaseMillis: 3_600_000, renewMillis: 1_800_000 }
      yield* Effect.gen(function* () {
        yield* publish(yield* newDestination)
        const attempt = yield* Queue.take(attempts)
        // Another replica had the shards for a while, which this process has not noticed: it was suspended with its clock.
        yield* sql`UPDATE delivery_shards SET owner = NULL, epoch = epoch + 1`
        yield* attempt.complete(delivered)
        const owned = sql`SELECT FROM delivery_shards WHERE owner IS NOT NULL AND epoch = 3`
        yield* eventually(owned, (rows) => rows.length === 256)
        yield* (yield* Queue.take(attempts)).complete(delivered)
        yield* eventually(queueLength, (length) => length === 0)
      }).pipe(withEngine([channel], { lease }))
    })
  )

  testWithDatabase(
    "a replica that claims shards does not wait for another that is claiming some of them",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const one = yield* replica("one")
        const locked = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const other = yield* Effect.forkChild(
          transaction(
            sql`UPDATE delivery_shards SET epoch = epoch + 1 WHERE shard < 248`.pipe(
              Effect.andThen(Deferred.succeed(locked, undefined)),
              Effect.andThen(Deferred.await(commit))
            )
          )
        )
        yield* Deferred.await(locked)
        yield* one.rebalance
        assert.sameMembers([...one.owned.keys()], [248, 249, 250, 251, 252, 253, 254, 255])
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(other)
      })
  )
})
