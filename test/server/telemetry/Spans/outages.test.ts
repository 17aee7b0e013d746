import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { Spans } from "../../../../src/server/telemetry/Spans.ts"
import { eventually } from "../../../support/eventually.ts"
import { recordSpans, newTelemetryOrg, shownDestination } from "../../../support/otlp/telemetry.ts"
import { service } from "../../../support/service.ts"

/** Which operations of the database client fail at first. */
type Door = "statements" | "transactions"

/** The current client, whose first use of these operations fails with this SQLSTATE; and whether it has. */
const faultyStore = Effect.fnUntraced(function* (door: Door, code: string) {
  const sql = yield* SqlClient.SqlClient
  // The layer asks what the database is when it starts.
  const seen = { isRunning: false, failed: false }
  const fail = Effect.suspend(() => {
    seen.failed = true
    return Effect.fail(new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause: { code } }) }))
  })
  const shut = (at: Door) => door === at && seen.isRunning && !seen.failed
  const store = new Proxy(sql, {
    apply: (target, self, args): unknown => (shut("statements") ? fail : Reflect.apply(target, self, args)),
    get: (target, key): unknown =>
      key === "withTransaction" && shut("transactions") ? () => fail : Reflect.get(target, key)
  })
  return { store, seen }
})

layer(service(), { excludeTestServices: true })("Spans during a database outage", (it) => {
  const arrive = (door: Door, code: string) =>
    it.effect(`spans arrive after ${door} failed with ${code}`, () =>
      Effect.gen(function* () {
        const { org_id, peer } = yield* newTelemetryOrg(`${door} ${code}`)
        const { seen, store } = yield* faultyStore(door, code)
        const spans = yield* Layer.build(Layer.fresh(Spans.layer({ flush: Duration.millis(10) }))).pipe(
          Effect.provideService(SqlClient.SqlClient, store)
        )
        seen.isRunning = true
        yield* Effect.provide(recordSpans(org_id, 1), spans)
        yield* peer.arrived(1)
        assert.isTrue(seen.failed)
        assert.strictEqual(Context.get(spans, Spans).localCounts(org_id).dropped, 0)
      })
    )
  it.effect("spans that the database rejects are dropped and counted, and so are spans dropped before", () =>
    Effect.gen(function* () {
      const { admin, org_id } = yield* newTelemetryOrg("rejected")
      const { seen, store } = yield* faultyStore("transactions", "23514")
      const layer = Spans.layer({ flush: Duration.millis(10), queueLimit: 1 })
      const spans = yield* Layer.build(Layer.fresh(layer)).pipe(
        Effect.provideService(SqlClient.SqlClient, store)
      )
      seen.isRunning = true
      const { flush, localCounts } = Context.get(spans, Spans)
      // The second trace is beyond the queue limit.
      yield* Effect.provide(Effect.andThen(recordSpans(org_id, 1), recordSpans(org_id, 1, 2)), spans)
      yield* flush
      assert.isTrue(seen.failed)
      yield* eventually(shownDestination(admin), ({ dropped_spans }) => dropped_spans > 0)
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [0, 3])
      assert.deepStrictEqual(localCounts(org_id), { waiting: 0, dropped: 0 })
    })
  )

  for (const code of ["08006", "57P03"]) arrive("statements", code)
  for (const code of ["57P03", "53300"]) arrive("transactions", code)
})
