import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { healthy } from "../../../../src/domain/delivery/Cooldown.ts"
import type { AttemptResult } from "../../../../src/server/delivery/Delivery/Attempt.ts"
import { makeDeliveryStore } from "../../../../src/server/delivery/Delivery/DeliveryStore.ts"
import { Lane } from "../../../../src/server/delivery/Delivery/Lane.ts"
import { toQueuedDelivery } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { shardOf } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import {
  failing,
  manualChannel,
  newDestination,
  ownedShard,
  processTime,
  publish,
  quickPolicy,
  withoutEngineFor
} from "../../../support/delivery.ts"
import { TestDatabase } from "../../../support/postgres.ts"

/** A delivery in the queue, and its first attempt, which failed and is to be retried. */
const failedAttempt = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { channel } = yield* manualChannel(quickPolicy())
  const store = makeDeliveryStore(sql, processTime)
  const to = yield* newDestination
  yield* publish(to).pipe(withoutEngineFor(channel))
  const shard = shardOf(to.destination_id)
  const [row] = yield* store.refill([{ ...to, shard }], 1)
  if (row === undefined) return yield* Effect.die("expected a queued delivery")
  const delivery = toQueuedDelivery(row, 0)
  const lane = new Lane("", channel, { ...ownedShard(0), shard, epoch: 0 }, delivery, healthy)
  const result: AttemptResult = { lane, delivery, outcome: failing, startedAt: 0, durationMillis: 1 }
  const recordWith = (hook?: (written: ReadonlySet<number>) => Effect.Effect<void, SqlError.SqlError>) =>
    store.recordResults([{ result, verdict: { _tag: "RetryLater", delay: 0, error: "HTTP 503" } }], hook)
  return {
    row,
    recordWith,
    record: recordWith(),
    attempts: sql`
      SELECT q.attempt, d.attempts, (SELECT count(*)::int FROM delivery_attempts a WHERE a.delivery_id = d.delivery_id) AS logged
      FROM delivery_queue q
        JOIN deliveries d USING (org_id, destination_id, delivery_id)
      WHERE q.delivery_id = ${row.delivery_id}
    `
  }
})

const none = new Set<number>()

layer(TestDatabase.layerSql, { excludeTestServices: true })("writeResults", (it) => {
  it.effect(
    "a result that is written again, because the response to the first write was lost, counts once",
    () =>
      Effect.gen(function* () {
        const { attempts, record, row } = yield* failedAttempt
        assert.deepStrictEqual(yield* record, { written: new Set([row.seq]), locked: none })
        assert.deepStrictEqual(yield* record, { written: none, locked: none })
        assert.deepStrictEqual(yield* attempts, [{ attempt: 1, attempts: 1, logged: 1 }])
      })
  )

  it.effect("what commits together with results waits for locks for half a second at most", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { recordWith } = yield* failedAttempt
      const timeouts: Array<unknown> = []
      yield* recordWith(() =>
        Effect.map(sql`SHOW lock_timeout`, ([row]) => void timeouts.push(row?.["lock_timeout"]))
      )
      assert.deepStrictEqual(timeouts, ["500ms"])
    })
  )

  it.effect(
    "a result whose row another write has locked is not recorded, and counts no more after that write",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { attempts, record, row } = yield* failedAttempt
        const written = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const other = yield* Effect.forkChild(
          transaction(
            sql`UPDATE delivery_queue SET attempt = attempt + 1 WHERE delivery_id = ${row.delivery_id}`.pipe(
              Effect.andThen(Deferred.succeed(written, undefined)),
              Effect.andThen(Deferred.await(commit))
            )
          )
        )
        yield* Deferred.await(written)
        assert.deepStrictEqual(yield* record, { written: none, locked: new Set([row.seq]) })
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(other)
        assert.deepStrictEqual(yield* record, { written: none, locked: none })
        assert.deepStrictEqual(yield* attempts, [{ attempt: 1, attempts: 0, logged: 0 }])
      })
  )
})
