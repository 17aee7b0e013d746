import { assert, describe } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber, Metric, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { type Channel, Delivery, type CompletedDelivery } from "../../../../src/server/delivery/Delivery.ts"
import { deliveriesCompleted } from "../../../../src/server/observability/metricDefinitions.ts"
import { maintainPartitions } from "../../../../src/server/delivery/Delivery/maintainPartitions.ts"
import {
  ageAllDeliveries,
  allHaveStatus,
  respondingChannel,
  delivered,
  newDestination,
  failing,
  manualChannel,
  publish,
  queueLength,
  quickPolicy,
  awaitRecords,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("Retention", () => {
  testWithDatabase("each day's attempts have a partition, and partitions of expired days are dropped", () =>
    Effect.gen(function* () {
      const { channel } = yield* respondingChannel(quickPolicy(), () => delivered)
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        yield* sql.unsafe(
          "CREATE TABLE delivery_attempts_20200101 PARTITION OF delivery_attempts FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')"
        )
        const to = yield* newDestination
        yield* publish(to)
        yield* awaitRecords(to, allHaveStatus("delivered"))
        // A killed replica cannot deregister.
        yield* sql`INSERT INTO delivery_owners (owner, lease_until) VALUES ('dead', now() - interval '2 days')`
        // An attempt that ended after its destination was removed stored the destination's health.
        yield* sql`
          INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures)
          VALUES ('org', 'removed', 1), (${to.org_id}, ${to.destination_id}, 1)
        `
        // The retention run at start is over by the end of this one.
        yield* delivery.runRetention
        assert.lengthOf(yield* sql`SELECT 1 WHERE to_regclass('delivery_attempts_20200101') IS NOT NULL`, 0)
        assert.lengthOf(yield* sql`SELECT owner FROM delivery_owners`, 1)
        assert.deepStrictEqual(yield* sql`SELECT destination_id FROM delivery_destinations`, [
          { destination_id: to.destination_id }
        ])
        assert.strictEqual((yield* delivery.runRetention).days, 0)
        // The day of the attempt: the test may end on the next one.
        const [place] = yield* sql<{ readonly name: string; readonly day: string }>`
          SELECT tableoid::regclass::text AS name, to_char(started_at AT TIME ZONE 'UTC', 'YYYYMMDD') AS day
          FROM delivery_attempts
        `
        assert.strictEqual(place?.name, `delivery_attempts_${place?.day}`)
        assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 1)
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase(
    "replicas that start together create each day's partition once, and none of them fails",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const today = DateTime.add(yield* DateTime.now, { days: 100 })
        const dropped = yield* Effect.replicateEffect(
          maintainPartitions(sql, DateTime.subtract(today, { days: 200 }), today),
          6,
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(dropped, [0, 0, 0, 0, 0, 0])
        const from = DateTime.formatIsoDateUtc(DateTime.subtract(today, { days: 1 })).replaceAll("-", "")
        assert.lengthOf(
          yield* sql`
          SELECT relname::text
          FROM pg_class
          WHERE relname >= ${`delivery_attempts_${from}`} AND relname < 'delivery_attempts_3' AND relkind = 'r'
        `,
          5
        )
      })
  )

  testWithDatabase(
    "retention continues while more is left than one run deletes, also if a partition cannot be created",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { channel } = yield* respondingChannel(quickPolicy(), () => delivered)
        const tomorrow = DateTime.formatIsoDateUtc(DateTime.add(yield* DateTime.now, { days: 1 }))
        yield* sql.unsafe(`CREATE TABLE delivery_attempts_${tomorrow.replaceAll("-", "")} (taken int)`)
        yield* sql`
        INSERT INTO deliveries
          (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
        SELECT 'org', 'nep', 'ndl_' || lpad(n::text, 32, '0'), 'held', 'evt', 'label', 'delivered', '2020-01-01'
        FROM generate_series(1, 1500) n
      `
        yield* eventually(sql`SELECT 1 FROM deliveries LIMIT 1`, (rows) => rows.length === 0).pipe(
          withEngine([channel], { retention: { every: "1 hour", steps: 1 } })
        )
      })
  )

  testWithDatabase(
    "a delivery whose id is from a machine with a clock far behind is kept as long as others",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* respondingChannel(quickPolicy(), () => delivered)
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const delivery = yield* Delivery
          const to = yield* newDestination
          yield* publish(to)
          yield* awaitRecords(to, allHaveStatus("delivered"))
          yield* ageAllDeliveries
          yield* sql`UPDATE deliveries SET created_at = now()`
          assert.strictEqual((yield* delivery.runRetention).deliveries, 0)
          yield* sql`UPDATE deliveries SET created_at = now() - interval '1 day'`
          assert.strictEqual((yield* delivery.runRetention).deliveries, 1)
        }).pipe(withEngine([channel], { retention: { keep: "1 hour" } }))
      })
  )

  testWithDatabase("locked queue rows are left to the next run without waiting", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const to = yield* newDestination
        yield* publish(to)
        const attempt = yield* Queue.take(attempts)
        yield* ageAllDeliveries
        const locked = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const writer = yield* Effect.forkChild(
          transaction(
            sql`SELECT seq FROM delivery_queue FOR UPDATE`.pipe(
              Effect.andThen(Deferred.succeed(locked, undefined)),
              Effect.andThen(Deferred.await(release))
            )
          )
        )
        yield* Deferred.await(locked)
        assert.strictEqual((yield* delivery.runRetention).deliveries, 0)
        assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 1)
        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(writer)
        assert.strictEqual((yield* delivery.runRetention).deliveries, 1)
        assert.strictEqual(yield* queueLength, 0)
        yield* attempt.complete(delivered)
      }).pipe(withEngine([channel], { retention: { keep: "1 hour" } }))
    })
  )

  testWithDatabase(
    "expired deliveries are deleted with their queue rows, and the queued ones count as refused and notify their channel",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* respondingChannel(quickPolicy(), (_, nth) =>
          nth === 1 ? delivered : failing
        )
        const hold = yield* manualChannel(quickPolicy({ concurrency: 1 }))
        const settled: Array<CompletedDelivery> = []
        const waiting: Channel = {
          ...hold.channel,
          name: "waiting",
          onCompleted: (list) => Effect.sync(() => void settled.push(...list))
        }
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          const other = yield* newDestination
          yield* publish(to, 3)
          const events = yield* publish(other, 2, "waiting")
          yield* awaitRecords(to, allHaveStatus("delivered"))
          const attempt = yield* Queue.take(hold.attempts)
          yield* ageAllDeliveries
          const refused = ["held", "waiting"].map((name) =>
            Metric.value(deliveriesCompleted(name, "refused"))
          )
          const before = yield* Effect.all(refused)
          assert.strictEqual((yield* delivery.runRetention).deliveries, 5)
          const after = yield* Effect.all(refused)
          assert.deepStrictEqual(
            after.map(({ count }, index) => count - (before[index]?.count ?? 0)),
            [0, 2]
          )
          assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 0)
          assert.lengthOf(yield* delivery.list(other.org_id, other.destination_id), 0)
          assert.strictEqual(yield* queueLength, 0)
          // Attempts in flight or in memory complete nothing any more: each completion is notified once.
          yield* attempt.complete(delivered)
          yield* (yield* Queue.take(hold.attempts)).complete(delivered)
          const another = yield* newDestination
          events.push(...(yield* publish(another, 1, "waiting")))
          yield* (yield* Queue.take(hold.attempts)).complete(delivered)
          yield* awaitRecords(another, allHaveStatus("delivered"))
          assert.sameDeepMembers(
            settled.map(({ delivery, status }) => [delivery.event_id, status]),
            events.map((event_id, index) => [event_id, index < 2 ? "failed" : "delivered"])
          )
        }).pipe(withEngine([channel, waiting], { retention: { keep: "1 hour" } }))
      })
  )
})
