import { PgConnection } from "@effect/sql-pg"
import { assert, describe } from "@effect/vitest"
import {
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Option,
  Queue,
  Redacted,
  Schedule,
  Scope
} from "effect"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { type Channel, Delivery, ENGINE_CONNECTIONS } from "../../../../src/server/delivery/Delivery.ts"
import { shardOf, SHARDS } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import {
  allHaveStatus,
  delivered,
  newDestination,
  startEngine,
  failing,
  manualChannel,
  assertOnlyOtherDestinationIsSent,
  publish,
  queueLength,
  quickPolicy,
  awaitRecords,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"
import { withDatabase, TestDatabase } from "../../../support/postgres.ts"

/**
 * An idle shard of a stopping replica has a new owner within this time, or within that of three starts of a replica on a slow or busy
 * machine: a start does as much, it connects and claims shards.
 */
const RELEASE_MILLIS = 1_000
const RELEASE_STARTS = 3

describe("Shards", () => {
  testWithDatabase("the result and health of a former owner are fenced and change nothing", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const lease = { leaseMillis: 2_000, marginMillis: 500, renewMillis: 100 }
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const to = yield* newDestination
        const delivery = yield* Delivery
        yield* publish(to)
        const stale = yield* Queue.take(attempts)
        // Another replica takes every shard for half a second.
        yield* sql`
          WITH leased AS (
            INSERT INTO delivery_leases (owner, lease_until) VALUES ('another', now() + interval '500 milliseconds')
          )
          UPDATE delivery_shards
          SET owner = 'another', epoch = epoch + 1
        `
        yield* sql`
          INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures)
          VALUES (${to.org_id}, ${to.destination_id}, 4)
        `
        yield* stale.complete(failing)
        const second = yield* Queue.take(attempts)
        assert.strictEqual(second.delivery.event_id, stale.delivery.event_id)
        const health = yield* delivery.health(to.org_id, [to.destination_id])
        assert.strictEqual(health.get(to.destination_id)?.consecutive_failures, 4)
        const [record] = yield* delivery.list(to.org_id, to.destination_id)
        assert.strictEqual(record?.attempts, 0)
        assert.strictEqual(record?.status, "delivering")
        yield* second.complete(delivered)
        // An attempt that began before the loss was noticed is fenced too, and made again.
        yield* Effect.forkChild(
          Effect.forever(Effect.flatMap(Queue.take(attempts), (attempt) => attempt.complete(delivered)))
        )
        const [done] = yield* awaitRecords(to, allHaveStatus("delivered"))
        assert.strictEqual(done?.attempts, 1)
      }).pipe(withEngine([channel], { lease, reader: { sweepMillis: 200 } }))
    })
  )

  testWithDatabase("lost lanes are dropped also when the rebalancing that notices the loss fails", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 1 }))
      const lease = { leaseMillis: 60_000, marginMillis: 500, renewMillis: 50 }
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const to = yield* newDestination
        yield* publish(to, 3)
        const stale = yield* Queue.take(attempts)
        // Renewals pass, but claims fail. Some of the lost shards are unowned already, so that a claim is tried.
        yield* sql`
          CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'
        `
        yield* sql`
          WITH leased AS (
            INSERT INTO delivery_leases (owner, lease_until) VALUES ('another', now() + interval '1 minute')
          )
          UPDATE delivery_shards
          SET
            owner = CASE WHEN shard % 2 = ${shardOf(to.destination_id) % 2} THEN 'another' END,
            epoch = epoch + 1
        `
        yield* sql`
          CREATE TRIGGER refuse BEFORE UPDATE OF owner ON delivery_shards FOR EACH ROW EXECUTE FUNCTION refuse()
        `
        yield* eventually(delivery.stats, ({ shards }) => shards < SHARDS)
        // The other replica finishes the queue and stops.
        yield* sql`DELETE FROM delivery_queue`
        yield* sql`UPDATE deliveries SET status = 'delivered', finished_at = now()`
        yield* sql`DROP TRIGGER refuse ON delivery_shards`
        yield* sql`UPDATE delivery_shards SET owner = NULL WHERE owner = 'another'`
        yield* eventually(delivery.stats, ({ shards }) => shards === SHARDS)
        yield* stale.complete(delivered)
        yield* assertOnlyOtherDestinationIsSent(attempts)
      }).pipe(withEngine([channel], { lease }))
    })
  )

  testWithDatabase(
    "the shards of a dead replica are claimed also after the database's clock was set back",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        const lease = { leaseMillis: 2_000, marginMillis: 500, renewMillis: 50 }
        // As a replica left them that died before its next renewal.
        yield* sql`INSERT INTO delivery_owners (owner, lease_until) VALUES ('dead', now() + interval '1 hour')`
        yield* sql`INSERT INTO delivery_leases (owner, lease_until) VALUES ('dead', now() + interval '1 hour')`
        yield* sql`UPDATE delivery_shards SET owner = 'dead', epoch = 1`
        yield* Effect.gen(function* () {
          yield* eventually((yield* Delivery).stats, ({ shards }) => shards === SHARDS)
          const to = yield* newDestination
          yield* publish(to)
          yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* awaitRecords(to, allHaveStatus("delivered"))
        }).pipe(withEngine([channel], { lease }))
      })
  )

  testWithDatabase("two replicas share the shards, and a stopping replica drains its own to the other", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const lease = { leaseMillis: 60_000, marginMillis: 6_000, renewMillis: 50 }
      // On a busy machine the test takes longer than an attempt usually may: a retry would be one attempt too many.
      const policy = quickPolicy({ deadlineMillis: 600_000 })
      const options = { lease, drainMillis: 600_000 }
      const counts = Effect.map(
        sql<{ readonly count: number }>`
          SELECT count(*)::int AS count
          FROM delivery_shards
          WHERE owner IS NOT NULL
          GROUP BY owner
        `,
        (rows) => rows.map((row) => row.count)
      )
      const one = yield* manualChannel(policy)
      const two = yield* manualChannel(policy)
      const first = yield* Scope.make()
      const to = yield* Effect.replicateEffect(newDestination, 40)
      yield* Effect.gen(function* () {
        assert.deepStrictEqual(yield* counts, [SHARDS])
        yield* Effect.gen(function* () {
          yield* eventually(
            counts,
            (list) => list.length === 2 && list.every((count) => count === SHARDS / 2)
          )
          yield* Effect.forEach(to, (one) => publish(one), { discard: true })
          const here = yield* eventually(
            Effect.map(Effect.all([Queue.size(one.attempts), Queue.size(two.attempts)]), ([a, b]) => ({
              a,
              b
            })),
            ({ a, b }) => a + b === to.length
          )
          assert.isAbove(here.a, 0)
          assert.isAbove(here.b, 0)
          // The first replica stops while its attempts are in flight: they end and are recorded before their shards are
          // released.
          const stopping = yield* Effect.forkChild(Scope.close(first, Exit.void))
          for (const attempt of yield* Queue.takeAll(one.attempts)) yield* attempt.complete(delivered)
          for (const attempt of yield* Queue.takeAll(two.attempts)) yield* attempt.complete(delivered)
          yield* Fiber.join(stopping)
          yield* eventually(counts, (list) => list.length === 1 && list[0] === SHARDS)
          yield* eventually(queueLength, (count) => count === 0)
          yield* Effect.forEach(to, (one) => publish(one), { discard: true })
          for (let i = 0; i < to.length; i++) yield* (yield* Queue.take(two.attempts)).complete(delivered)
          assert.strictEqual(yield* Queue.size(one.attempts), 0)
          yield* eventually(queueLength, (count) => count === 0)
        }).pipe(withEngine([two.channel], options))
      }).pipe(Effect.provideService(Delivery, yield* startEngine(first, [one.channel], options)))
    })
  )

  testWithDatabase(
    "a stopping replica releases idle shards immediately and peers claim them without waiting for their interval",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const lease = { leaseMillis: 180_000, marginMillis: 6_000, renewMillis: 60_000 }
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        const first = yield* Scope.make()
        const [start, leaving] = yield* Effect.timed(startEngine(first, [channel], { lease }))
        const limit = Math.max(RELEASE_MILLIS, RELEASE_STARTS * Duration.toMillis(start))
        const [before] = yield* sql<{ readonly owner: string }>`SELECT owner FROM delivery_owners`
        const taken = Effect.map(
          sql<{ readonly count: number }>`
          SELECT count(*)::int AS count
          FROM delivery_shards
          WHERE owner <> ${before?.owner ?? ""}
        `,
          ([row]) => row?.count
        )
        yield* Effect.provideService(Effect.flatMap(newDestination, publish), Delivery, leaving)
        const attempt = yield* Queue.take(attempts)
        yield* Effect.gen(function* () {
          assert.strictEqual(yield* taken, 0)
          const stoppedAt = performance.now()
          const stopping = yield* Effect.forkChild(Scope.close(first, Exit.void))
          // All shards but the one with an attempt in flight; that one as soon as the attempt has ended.
          yield* eventually(taken, (count) => count === SHARDS - 1)
          assert.isAtMost(performance.now() - stoppedAt, limit)
          const ended = performance.now()
          yield* attempt.complete(delivered)
          yield* Fiber.join(stopping)
          yield* eventually(taken, (count) => count === SHARDS)
          assert.isAtMost(performance.now() - ended, limit)
        }).pipe(withEngine([channel], { lease }))
      })
  )

  testWithDatabase("shutdown waits for attempts in flight, also during a short database outage", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { url } = yield* TestDatabase
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const scope = yield* Scope.make()
      const engine = yield* startEngine(scope, [channel])
      const to = yield* newDestination
      yield* Effect.provideService(publish(to), Delivery, engine)
      const attempt = yield* Queue.take(attempts)
      const name = new URL(Redacted.value(url)).pathname.slice(1)
      const admin = yield* PgConnection.make({ url: withDatabase(url, "postgres") })
      yield* admin.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS false`)
      yield* admin.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}' AND backend_type = 'client backend'`
      )
      const stopping = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      // Long enough for a shutdown that waits for nothing; this one cannot end before its attempt.
      assert.isTrue(Option.isNone(yield* Effect.timeoutOption(Fiber.join(stopping), 500)))
      yield* admin.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS true`)
      yield* attempt.complete(delivered)
      yield* Fiber.join(stopping)
      const patiently = Effect.retry({ schedule: Schedule.spaced(50) })
      assert.deepStrictEqual(yield* patiently(sql`SELECT status, attempts FROM deliveries`), [
        { status: "delivered", attempts: 1 }
      ])
      assert.deepStrictEqual(yield* patiently(sql`SELECT FROM delivery_shards WHERE owner IS NOT NULL`), [])
    })
  )

  testWithDatabase("leases run out while the queue cannot be read, and are renewed afterwards", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const lease = { leaseMillis: 1_000, marginMillis: 200, renewMillis: 50 }
      const leases = sql<{ readonly valid: number }>`
        SELECT count(*)::int AS valid
        FROM delivery_leases
        WHERE lease_until > clock_timestamp()
      `
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        yield* transaction(
          Effect.gen(function* () {
            // Leases are in another table, and renewed over another connection.
            yield* sql`LOCK TABLE delivery_queue IN ACCESS EXCLUSIVE MODE`
            yield* eventually(leases, ([row]) => row?.valid === 0)
          })
        )
        yield* publish(to)
        yield* (yield* Queue.take(attempts)).complete(delivered)
        yield* awaitRecords(to, allHaveStatus("delivered"))
        yield* eventually(leases, ([row]) => row?.valid === 1)
      }).pipe(withEngine([channel], { lease, reader: { pollMillis: 50, sweepMillis: 100 } }))
    })
  )

  testWithDatabase("leases are renewed while every other connection of the engine waits for a lock", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const lease = { leaseMillis: 60_000, marginMillis: 500, renewMillis: 50 }
      const { channel } = yield* manualChannel(quickPolicy())
      // Loads use the engine's own connections, and wait there.
      const slow = Effect.map(SqlClient.SqlClient, (own): ReadonlyArray<Channel> => [
        {
          ...channel,
          load: () => Effect.as(own`SELECT pg_advisory_xact_lock(1)`, () => Effect.succeed(delivered))
        }
      ])
      const renewed = sql<{ readonly renewed: boolean }>`
        SELECT count(*) >= ${ENGINE_CONNECTIONS - 2}::int
          AND max(a.query_start) < (SELECT min(lease_until) - interval '1 minute' FROM delivery_leases) AS renewed
        FROM pg_stat_activity a
        WHERE a.datname = current_database()
          AND a.wait_event_type = 'Lock'
      `
      yield* Effect.gen(function* () {
        const done = yield* Deferred.make<void>()
        const held = yield* Deferred.make<void>()
        const holder = yield* Effect.forkChild(
          transaction(
            sql`SELECT pg_advisory_xact_lock(1)`.pipe(
              Effect.andThen(Deferred.succeed(held, undefined)),
              Effect.andThen(Deferred.await(done))
            )
          )
        )
        yield* Deferred.await(held)
        for (let count = 0; count < 2 * ENGINE_CONNECTIONS; count++) yield* publish(yield* newDestination)
        // Before the database cancels the first of the reads, after 10 s, and its connection is free.
        yield* Effect.timeout(
          eventually(renewed, ([row]) => row?.renewed === true),
          "9 seconds"
        )
        yield* Deferred.succeed(done, undefined)
        yield* Fiber.join(holder)
      }).pipe(
        Effect.provide(Delivery.layer(slow, { lease }).pipe(Layer.provide(StoreClock.layer)), { local: true })
      )
    })
  )
})
