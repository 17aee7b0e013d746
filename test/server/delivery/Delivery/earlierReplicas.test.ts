import { assert, describe } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Scope } from "effect"
import { SqlClient } from "effect/sql"
import type { Channel } from "../../../../src/server/delivery/Channel.ts"
import { defaultLease, makeShards } from "../../../../src/server/delivery/Delivery/Shards.ts"
import { makeShardStore, VIRTUAL_OWNER } from "../../../../src/server/delivery/Delivery/ShardStore.ts"
import { DeliveryId } from "../../../../src/domain/Ids.ts"
import {
  delivered,
  newDestination,
  publish,
  queueLength,
  quickPolicy,
  startEngine,
  testWithDatabase,
  withoutEngineFor
} from "../../../support/delivery.ts"
import { makeEarlierLeases, startEarlierReplica } from "../../../support/earlierReplica.ts"
import { eventually } from "../../../support/eventually.ts"

/** How long an attempt takes, in milliseconds. */
const SEND_MILLIS = 5

/** The pause between two events, in milliseconds: less than one earlier replica sends in that time. */
const PUBLISH_MILLIS = 30

/** Leases as long as those of earlier replicas, which judge by that who is alive; renewed often, so that the test takes less time. */
const lease = { leaseMillis: 10_000, marginMillis: 500, renewMillis: 50 }

/** Leases of this release, without an engine. */
const replica = Effect.fnUntraced(function* (owner: string) {
  const sql = yield* SqlClient.SqlClient
  return makeShards(makeShardStore(sql, owner), yield* Clock.Clock, defaultLease)
})

/** Records which processes send, and fails if two send for one destination at a time. */
const makeReceiver = () => {
  const sending = new Map<string, { readonly process: string; count: number }>()
  const sentBy = new Map<string, Array<string>>()
  const clashes: Array<string> = []
  const receive = (process: string) => (destination_id: string, delivery_id: string) =>
    Effect.gen(function* () {
      const current = sending.get(destination_id)
      if (current !== undefined && current.count > 0 && current.process !== process) {
        clashes.push(`${process} and ${current.process} send for ${destination_id}`)
      }
      const entry = current?.process === process ? current : { process, count: 0 }
      entry.count++
      sending.set(destination_id, entry)
      sentBy.set(delivery_id, [...(sentBy.get(delivery_id) ?? []), process])
      yield* Effect.sleep(SEND_MILLIS)
      entry.count--
    })
  const channel = (process: string): Channel => ({
    name: "held",
    ids: DeliveryId,
    policy: quickPolicy(),
    load: (ref) =>
      Effect.succeed(() => Effect.as(receive(process)(ref.destination_id, ref.delivery_id), delivered)),
    expire: () => Effect.succeed(0)
  })
  return { receive, channel, clashes, sentBy }
}

describe("Replicas of the release before virtual shards", () => {
  testWithDatabase(
    "share the queue during an upgrade and a rollback: each delivery is sent, by one at a time",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { channel, clashes, receive, sentBy } = makeReceiver()
        const to = yield* Effect.replicateEffect(newDestination, 24)
        const load = { isOver: false }
        const publishing = yield* Effect.forkChild(
          Effect.gen(function* () {
            while (!load.isOver) {
              for (const one of to) {
                yield* publish(one)
                yield* Effect.sleep(PUBLISH_MILLIS)
              }
            }
          }).pipe(withoutEngineFor(channel("publisher")))
        )
        const shardsOf = sql<{ readonly shared: number; readonly earlier: number; readonly virtual: number }>`
        SELECT
          (SELECT count(*)::int FROM delivery_shards WHERE owner = ${VIRTUAL_OWNER}) AS shared,
          (SELECT count(*)::int FROM delivery_shards WHERE owner <> ${VIRTUAL_OWNER}) AS earlier,
          (SELECT count(*)::int FROM delivery_virtual_shards WHERE owner IS NOT NULL) AS virtual
      `
        const start = Effect.fnUntraced(function* (name: string) {
          const scope = yield* Scope.make()
          const engine = yield* startEngine(scope, [channel(name)], { lease })
          return { engine, stop: Scope.close(scope, Exit.void) }
        })
        const sentSoFar = () => sentBy.size
        const moreIsSent = Effect.suspend(() => {
          const before = sentSoFar()
          return eventually(Effect.sync(sentSoFar), (now) => now > before + to.length)
        })

        // The upgrade: two earlier ones, then two of this release one after the other, then these alone.
        const one = yield* startEarlierReplica("earlier one", receive("earlier one"))
        const two = yield* startEarlierReplica("earlier two", receive("earlier two"))
        yield* eventually(shardsOf, ([row]) => row?.earlier === 16 && row.shared === 0)
        yield* moreIsSent
        const first = yield* start("first")
        yield* eventually(shardsOf, ([row]) => (row?.shared ?? 0) > 0 && row?.virtual === row!.shared * 16)
        yield* moreIsSent
        yield* one.stop
        const second = yield* start("second")
        yield* eventually(
          Effect.all([first.engine.stats, second.engine.stats, shardsOf]),
          ([a, b, [row]]) =>
            a.shards + b.shards === (row?.shared ?? 0) * 16 && Math.abs(a.shards - b.shards) <= 1
        )
        yield* moreIsSent
        yield* two.stop
        yield* eventually(shardsOf, ([row]) => row?.shared === 16 && row.virtual === 256)
        yield* moreIsSent

        // The rollback: an earlier one waits until the last of this release stops.
        const back = yield* startEarlierReplica("earlier back", receive("earlier back"))
        yield* moreIsSent
        assert.strictEqual(back.leases.owned.size, 0)
        yield* first.stop
        yield* moreIsSent
        yield* second.stop
        yield* eventually(shardsOf, ([row]) => row?.earlier === 16 && row.virtual === 0)
        yield* moreIsSent

        load.isOver = true
        yield* Fiber.join(publishing)
        yield* eventually(queueLength, (count) => count === 0)
        yield* back.stop
        assert.deepStrictEqual(clashes, [])
        assert.deepStrictEqual(
          yield* sql`SELECT status, attempts, count(*)::int = ${sentBy.size}::int AS all FROM deliveries GROUP BY status, attempts`,
          [{ status: "delivered", attempts: 1, all: true }]
        )
        assert.deepStrictEqual(
          [...sentBy].filter(([, processes]) => processes.length > 1),
          []
        )
      })
  )

  testWithDatabase("take over when all replicas of this release died, whose late writes change nothing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const one = yield* replica("one")
      yield* one.rebalance
      const stale = one.owned.get(5) ?? assert.fail("it owns all")
      const earlier = makeEarlierLeases(sql, "earlier")
      yield* earlier.rebalance
      assert.strictEqual(earlier.owned.size, 0)
      // As time passes without a heartbeat.
      yield* sql`UPDATE delivery_shards SET lease_until = now() - interval '1 second'`
      yield* sql`UPDATE delivery_owners SET lease_until = now() - interval '1 second' WHERE owner = 'one'`
      yield* earlier.rebalance
      assert.strictEqual(earlier.owned.size, 16)
      // It was only suspended: it finds that it owns nothing, and its fencing tokens are void.
      yield* one.rebalance
      assert.strictEqual(one.owned.size, 0)
      assert.deepStrictEqual(
        yield* sql`
          SELECT
          FROM delivery_virtual_shards v
          JOIN delivery_shards s ON s.shard = v.virtual_shard % 16
          WHERE s.epoch + v.epoch = ${stale.epoch}
            AND v.virtual_shard = ${stale.virtualShard}
        `,
        []
      )
      // Both share from now on. The late writes of the earlier one to what it gave up change nothing either.
      const tokens = new Map(earlier.owned)
      yield* earlier.rebalance
      yield* one.rebalance
      assert.deepStrictEqual([earlier.owned.size, one.owned.size], [8, 128])
      const shared = yield* sql<{ readonly shard: number; readonly epoch: number }>`
        SELECT shard::int AS shard, epoch::float8 AS epoch FROM delivery_shards WHERE owner = ${VIRTUAL_OWNER}
      `
      assert.lengthOf(shared, 8)
      for (const { epoch, shard } of shared) assert.isAbove(epoch, tokens.get(shard) ?? Infinity)
    })
  )

  testWithDatabase("find the shards of this release leased for longer than any of its replicas needs", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [one, two] = [yield* replica("one"), yield* replica("two")]
      yield* one.rebalance
      // The other's lease is newer than what the first wrote of the shards.
      yield* sql`UPDATE delivery_shards SET lease_until = lease_until - interval '4 seconds'`
      yield* two.rebalance
      assert.deepStrictEqual(
        yield* sql`SELECT FROM delivery_shards WHERE lease_until < (SELECT max(lease_until) FROM delivery_leases)`,
        []
      )
    })
  )

  testWithDatabase("more than sixteen replicas of this release have equal shares", () =>
    Effect.gen(function* () {
      const replicas = yield* Effect.forEach(
        Array.from({ length: 17 }, (_, index) => `replica ${String(index).padStart(2, "0")}`),
        replica
      )
      for (let round = 0; round < 3; round++) for (const one of replicas) yield* one.rebalance
      assert.sameMembers(
        replicas.map((one) => one.owned.size),
        [16, ...Array.from({ length: 16 }, () => 15)]
      )
      const all = replicas.flatMap((one) => [...one.owned.keys()])
      assert.strictEqual(new Set(all).size, 256)
    })
  )
})
