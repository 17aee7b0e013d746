import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { accepted } from "../../../support/otlp/collector.ts"
import { awaitOnlyBatch, sendSpans, newTelemetryOrg } from "../../../support/otlp/telemetry.ts"
import { service } from "../../../support/service.ts"

/** Spans go out when a test says so. */
const byHand = { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300" }

/** Queues of destinations that are held by somebody who waits for something else. */
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

layer(service({ environment: byHand }), { excludeTestServices: true })("a replay of spans", (it) => {
  it.effect("waits with nothing in its hands that those it waits for need next", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, id, org_id } = yield* newTelemetryOrg("held", [{ status: 404 }, accepted])
      yield* sendSpans(org_id, 1)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      const replay = yield* sql.withTransaction(
        Effect.gen(function* () {
          // In the order of who writes results down: the log, then the destination; and of who writes batches: then its queue.
          yield* sql`SELECT 1 FROM deliveries WHERE org_id = ${org_id} AND delivery_id = ${failed.id} FOR UPDATE`
          const replaying = yield* Effect.forkDetach(
            admin.telemetry_destinations.replay({ params: { id, delivery: failed.id } })
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

  it.effect("holds the destination before its queue, as a flush does", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, id, org_id } = yield* newTelemetryOrg("flushed meanwhile", [{ status: 404 }, accepted])
      yield* sendSpans(org_id, 1)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      const replay = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 FROM telemetry_destinations WHERE org_id = ${org_id} FOR NO KEY UPDATE`
          const replaying = yield* Effect.forkDetach(
            admin.telemetry_destinations.replay({ params: { id, delivery: failed.id } })
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
