import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { DeliveryStore } from "../../../../src/server/delivery/Delivery/DeliveryStore.ts"
import { defaultReader, makeReader } from "../../../../src/server/delivery/Delivery/Reader.ts"
import { shardOf } from "../../../../src/server/delivery/Delivery/virtualShards.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import {
  allHaveStatus,
  respondingChannel,
  delivered,
  manualChannel,
  newDestination,
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
        tail: ([shard]) =>
          Effect.sync(() =>
            visible
              .filter(({ seq }) => seq > (shard?.watermark ?? 0))
              .map((row) => ({ ...row, scanned: visible.length }))
          )
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
        }).pipe(withEngine([channel], { reader: { pollMillis: 60_000, sweepMillis: 60_000 } }))
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
        }).pipe(Effect.scoped, withEngine([channel], { reader: { pollMillis: 60_000, sweepMillis: 60_000 } }))
      })
  )
})
