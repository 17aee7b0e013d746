import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { DeliveryStore } from "../../../../src/server/delivery/Delivery/DeliveryStore.ts"
import { defaultReader, makeReader } from "../../../../src/server/delivery/Delivery/Reader.ts"
import type { QueueRow } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import {
  type HeadRow,
  SWEEP_LANES,
  SWEEP_SHARDS
} from "../../../../src/server/delivery/Delivery/QueueReads.ts"
import { shardOf, SHARDS } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import {
  allHaveStatus,
  respondingChannel,
  delivered,
  manualChannel,
  newDestination,
  ownedShard,
  withoutEngineFor,
  publish,
  queueLength,
  queueRow,
  quickPolicy,
  awaitRecords,
  startDispatcher,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"
import { TestDatabase } from "../../../support/postgres.ts"

const unused = Effect.die("The tail needs no other statement")
const tailOnly: Omit<DeliveryStore, "tail"> = {
  hasCachedNumbers: Effect.succeed(false),
  nonEmpty: () => unused,
  heads: () => unused,
  refill: () => unused,
  recordResults: () => unused,
  saveHealth: () => unused
}

describe("Reader", () => {
  it.effect("the tail finds a row that becomes visible after one with a higher number", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher, shards } = yield* startDispatcher(channel)
      const [early, late] = [queueRow({ seq: 1 }), queueRow({ seq: 2 })]
      let visible = [late]
      const store: DeliveryStore = {
        ...tailOnly,
        tail: ([range]) => Effect.sync(() => visible.filter(({ seq }) => seq > (range?.reread ?? 0)))
      }
      const reader = yield* makeReader(store, yield* Clock.Clock, shards, dispatcher, defaultReader)
      yield* reader.tail.runOnce
      assert.strictEqual((yield* Queue.take(attempts)).delivery.event_id, late.event_id)
      visible = [early, late]
      yield* TestClock.adjust("1 second")
      yield* reader.tail.runOnce
      yield* TestClock.adjust("1 second")
      const found = yield* Queue.clear(attempts)
      assert.deepStrictEqual(
        found.map(({ delivery }) => delivery.event_id),
        [early.event_id]
      )
    }).pipe(Effect.scoped)
  )

  it.effect(
    "a shard with more new rows than one read takes is read on at once, from where the read ended; a draining one is not read",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* manualChannel(quickPolicy())
        const { dispatcher, owned, shards } = yield* startDispatcher(channel)
        for (let shard = 1; shard < SHARDS; shard++) {
          owned.set(shard, { ...ownedShard(0), shard, draining: shard === 1 })
        }
        const reads: Array<{ readonly shards: number; readonly watermark: number; readonly limit: number }> =
          []
        const rows = Array.from({ length: 100 }, (_, index) => queueRow({ seq: index + 1 }))
        const store: DeliveryStore = {
          ...tailOnly,
          tail: (ranges, limit) =>
            Effect.sync(() => {
              const { reread, watermark } = ranges[0] ?? assert.fail("a shard")
              reads.push({ shards: ranges.length, watermark, limit })
              const isNew = ({ seq }: QueueRow) => seq > watermark
              return [
                ...rows.filter(({ seq }) => seq > reread && seq <= watermark),
                ...rows.filter(isNew).slice(0, limit)
              ]
            })
        }
        const reader = yield* makeReader(store, yield* Clock.Clock, shards, dispatcher, defaultReader)
        const readsOn = Effect.gen(function* () {
          yield* reader.tail.runOnce
          const waiting = yield* Effect.forkChild(reader.tail.wakeUp)
          yield* TestClock.adjust(4)
          return waiting.pollUnsafe() !== undefined
        })
        assert.deepStrictEqual([yield* readsOn, yield* readsOn], [true, true])
        // From now on, each read includes earlier rows, which do not count.
        yield* TestClock.adjust("1 second")
        assert.isTrue(yield* readsOn)
        yield* TestClock.adjust("1 second")
        assert.isFalse(yield* readsOn)
        assert.deepStrictEqual(
          reads,
          [0, 33, 66, 99].map((watermark) => ({ shards: SHARDS - 1, watermark, limit: 33 }))
        )
      }).pipe(Effect.scoped)
  )

  it.effect(
    "a sweep reads all shards before it reads on in those that have more lanes, and leaves out lost and draining ones",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* manualChannel(quickPolicy())
        const { dispatcher, owned, shards } = yield* startDispatcher(channel)
        for (let shard = 1; shard < SWEEP_SHARDS + 4; shard++) {
          owned.set(shard, { ...ownedShard(0), shard, draining: shard === SWEEP_SHARDS + 3 })
        }
        const reads: Array<ReadonlyArray<readonly [shard: number, destination_id: string]>> = []
        const head = (shard: number, change: Partial<HeadRow> = {}): HeadRow => ({
          ...queueRow({ shard, wait_ms: 60_000 }),
          lanes: 1,
          cooling_down: 1,
          ...change
        })
        const store: DeliveryStore = {
          ...tailOnly,
          tail: () => unused,
          nonEmpty: (numbers) => Effect.succeed(numbers.map((shard) => ({ shard }))),
          heads: (positions) =>
            Effect.sync(() => {
              reads.push(positions.map(({ destination_id, shard }) => [shard, destination_id] as const))
              if (reads.length > 1) return positions.map(({ shard }) => head(shard))
              owned.delete(3)
              owned.delete(SWEEP_SHARDS)
              return positions.flatMap(({ shard }) =>
                shard === 2 || shard === 3
                  ? ["first", "last"].map((destination_id) =>
                      head(shard, { destination_id, lanes: SWEEP_LANES })
                    )
                  : [head(shard)]
              )
            })
        }
        const reader = yield* makeReader(store, yield* Clock.Clock, shards, dispatcher, defaultReader)
        yield* (
          reader.workers.find(({ name }) => name === "delivery_sweep")?.runOnce ?? assert.fail("the sweep")
        )
        assert.deepStrictEqual(reads, [
          Array.from({ length: SWEEP_SHARDS }, (_, shard) => [shard, ""] as const),
          [
            [SWEEP_SHARDS + 1, ""],
            [SWEEP_SHARDS + 2, ""],
            [2, "last"]
          ]
        ])
        // Each read tells how many lanes of a channel are cooling down in all that it has read.
        assert.deepStrictEqual([...reader.lastSweep()], [["held", { overdueMillis: 0, coolingDown: 2 }]])
      }).pipe(Effect.scoped)
  )

  testWithDatabase("a queue longer than a lane holds in memory is sent completely, each delivery once", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        const events = yield* publish(to, 700)
        yield* eventually(queueLength, (count) => count === 0)
        const refs = yield* Queue.takeAll(sent)
        assert.lengthOf(refs, 700)
        assert.sameMembers(
          refs.map((ref) => ref.event_id),
          events
        )
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase(
    "a row inserted before and committed after a row that was read is found without a sweep",
    () =>
      Effect.gen(function* () {
        const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
        yield* Effect.gen(function* () {
          const early = yield* newDestination
          // Of one shard: what was read is remembered for each shard.
          const shard = shardOf(early.destination_id)
          const late = yield* Effect.repeat(newDestination, {
            until: ({ destination_id }) => shardOf(destination_id) === shard
          })
          const written = yield* Deferred.make<void>()
          const commit = yield* Deferred.make<void>()
          const slow = yield* Effect.forkChild(
            transaction(
              Effect.andThen(
                publish(early),
                Effect.andThen(Deferred.succeed(written, undefined), Deferred.await(commit))
              )
            ).pipe(withoutEngineFor(channel))
          )
          yield* Deferred.await(written)
          yield* publish(late).pipe(withoutEngineFor(channel))
          assert.strictEqual((yield* Queue.take(sent)).destination_id, late.destination_id)
          yield* Deferred.succeed(commit, undefined)
          assert.strictEqual((yield* Queue.take(sent)).destination_id, early.destination_id)
          yield* Fiber.join(slow)
          yield* awaitRecords(early, allHaveStatus("delivered"))
        }).pipe(withEngine([channel], { reader: { pollMillis: 600_000, sweepMillis: 600_000 } }))
      })
  )

  testWithDatabase(
    "rows are sent soon and once also if each connection takes a block of a hundred numbers",
    () =>
      Effect.gen(function* () {
        const { url } = yield* TestDatabase
        const sql = yield* SqlClient.SqlClient
        yield* sql`ALTER SEQUENCE delivery_queue_seq_seq CACHE 100`
        const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
        yield* Effect.gen(function* () {
          const connections = yield* Effect.replicateEffect(PgConnection.make({ url }), 9)
          const to = yield* newDestination
          const found: Array<string> = []
          // Each takes a block. Then some write in turn, the one with the highest numbers first: the rows of the others lie
          // farther behind than late ones are looked for.
          const apart = connections.filter((_, index) => index % 4 === 0)
          for (const [turn, connection] of [...connections, ...apart.toReversed(), ...apart].entries()) {
            const delivery_id = `ndl_${String(turn).padStart(32, "0")}`
            yield* connection.query(`
              WITH logged AS (
                INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, size, status, created_at)
                VALUES ('${to.org_id}', '${to.destination_id}', '${delivery_id}', 'held', 'evt_${String(turn).padStart(32, "0")}', 'test', 1, 'pending', now())
              )
              INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
              VALUES (${shardOf(to.destination_id)}, '${to.org_id}', '${to.destination_id}', '${delivery_id}', 'held', 'evt_${String(turn).padStart(32, "0")}', now(), 0, 0)
            `)
            yield* sql`SELECT pg_notify('countersign_delivery', 'rows')`
            found.push((yield* Queue.take(sent)).delivery_id)
          }
          assert.lengthOf(new Set(found), 15)
          yield* eventually(queueLength, (count) => count === 0)
          assert.strictEqual(yield* Queue.size(sent), 0)
        }).pipe(
          Effect.scoped,
          withEngine([channel], { reader: { pollMillis: 600_000, sweepMillis: 600_000 } })
        )
      })
  )
})
