import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { deleteExpired } from "../../../../src/server/deletion/RowRetention.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { accepted } from "../../../support/otlp/collector.ts"
import { awaitOnlyBatch, sendSpans, newTelemetryOrg } from "../../../support/otlp/telemetry.ts"
import { service } from "../../../support/service.ts"

/** Spans are flushed only by the tests. */
const byHand = { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300" }

/** Advisory locks of destinations held by a transaction that waits for another lock. */
const queuesOfWaiting = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`
    SELECT 1
    FROM pg_locks held
    JOIN pg_locks waiting USING (pid)
    WHERE held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND held.locktype = 'advisory'
      AND NOT waiting.granted
  `
)

layer(service({ environment: byHand }), { excludeTestServices: true })("Replay of spans", (it) => {
  it.effect("a waiting replay holds no lock that the transaction it waits for needs next", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, id, org_id } = yield* newTelemetryOrg("held", [{ status: 404 }, accepted])
      yield* sendSpans(org_id, 1)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      const replay = yield* sql.withTransaction(
        Effect.gen(function* () {
          // In the order in which results are recorded (log row, destination), then the queue as when batches are
          // stored.
          yield* sql`SELECT 1 FROM deliveries WHERE org_id = ${org_id} AND delivery_id = ${failed.id} FOR UPDATE`
          const replaying = yield* Effect.forkDetach(
            admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: failed.id } })
          )
          yield* waitForBlockedStatements(1)
          yield* sql`SELECT 1 FROM telemetry_destinations WHERE org_id = ${org_id} FOR NO KEY UPDATE NOWAIT`
          assert.isEmpty(yield* queuesOfWaiting)
          return replaying
        })
      )
      assert.isTrue((yield* Fiber.join(replay)).queued)
      yield* awaitOnlyBatch(admin, id, "delivered")
    })
  )

  it.effect("retention keeps the spans of a batch that is being replayed, and does not wait for it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, id, org_id } = yield* newTelemetryOrg("expired meanwhile", [{ status: 404 }, accepted])
      yield* sendSpans(org_id, 1)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      const locked = yield* Deferred.make<void>()
      const expired = yield* Deferred.make<void>()
      const replaying = yield* Effect.forkChild(
        sql.withTransaction(
          sql`SELECT 1 FROM deliveries WHERE org_id = ${org_id} AND delivery_id = ${failed.id} FOR UPDATE`.pipe(
            Effect.andThen(Deferred.succeed(locked, undefined)),
            Effect.andThen(Deferred.await(expired))
          )
        )
      )
      yield* Deferred.await(locked)
      assert.strictEqual((yield* deleteExpired("telemetry_retention", 0)).removed, 0)
      yield* Deferred.succeed(expired, undefined)
      yield* Fiber.join(replaying)
      yield* admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: failed.id } })
      yield* awaitOnlyBatch(admin, id, "delivered")
    })
  )

  it.effect("a replay locks the destination before its queue, as a flush does", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, id, org_id } = yield* newTelemetryOrg("flushed meanwhile", [{ status: 404 }, accepted])
      yield* sendSpans(org_id, 1)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      const replay = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 FROM telemetry_destinations WHERE org_id = ${org_id} FOR NO KEY UPDATE`
          const replaying = yield* Effect.forkDetach(
            admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: failed.id } })
          )
          yield* waitForBlockedStatements(1)
          assert.isEmpty(yield* queuesOfWaiting)
          return replaying
        })
      )
      assert.isTrue((yield* Fiber.join(replay)).queued)
    })
  )
})
