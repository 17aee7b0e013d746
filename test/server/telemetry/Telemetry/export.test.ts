import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import type { IncomingMessage, ServerResponse } from "node:http"
import { Countersign } from "../../../../src/testing/index.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { Spans } from "../../../../src/server/telemetry/Spans.ts"
import { deleteExpired } from "../../../../src/server/deletion/RowRetention.ts"
import { accepted, type CollectorResponse, startCollector } from "../../../support/otlp/collector.ts"
import {
  awaitBatches,
  awaitOnlyBatch,
  recordSpans,
  sendSpans,
  shownDestination,
  newTelemetryOrg,
  TOKEN
} from "../../../support/otlp/telemetry.ts"
import { databaseAsText } from "../../../support/databaseAsText.ts"
import { service } from "../../../support/service.ts"
import { eventually, waitForBlockedStatements } from "../../../support/eventually.ts"

/** Spans are flushed only by the tests. */
const byHand = { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300" }

const problemOf = <A, E extends { readonly _tag: string }, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), ({ _tag }) => _tag)

layer(service({ environment: byHand }), { excludeTestServices: true })("Span export", (it) => {
  it.effect("spans are sent gzipped with the configured headers, and counted", () =>
    Effect.gen(function* () {
      const { admin, id, org_id, peer } = yield* newTelemetryOrg("sent")
      yield* recordSpans(org_id, 3, 2)
      yield* eventually(shownDestination(admin), ({ pending_spans }) => pending_spans === 6)
      assert.lengthOf(peer.exports, 0)
      yield* Effect.flatMap(Spans, (spans) => spans.flush)
      const batch = yield* awaitOnlyBatch(admin, id, "delivered")
      assert.deepStrictEqual(peer.faults, [])
      assert.lengthOf(peer.spans(), 6)
      const [request] = peer.exports
      assert.strictEqual(request?.path, "/private-path")
      assert.isTrue(request?.isGzipped)
      assert.strictEqual(request?.headers["authorization"], `Bearer ${TOKEN}`)
      const { created_at: _c, finished_at, id: _i, ...record } = batch
      assert.isNotNull(finished_at)
      assert.deepStrictEqual(record, {
        signal: "spans",
        status: "delivered",
        span_count: 6,
        rejected_spans: 0,
        attempts: 1,
        replays: 0,
        http_status: 200,
        last_error: null
      })
      const destination = yield* shownDestination(admin)
      assert.deepStrictEqual([destination.pending_spans, destination.dropped_spans], [0, 0])
      assert.isNotNull(destination.last_delivered_at)
      assert.isNull(destination.last_error)
      // Accepted spans are not retained.
      assert.strictEqual(
        yield* problemOf(
          admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: batch.id } })
        ),
        "NOT_REPLAYABLE"
      )
    })
  )

  it.effect("a collector that refuses compressed requests gets the others without compression", () =>
    Effect.gen(function* () {
      const refuses = (status: number) => (response: ServerResponse, request: IncomingMessage) => {
        response.writeHead(request.headers["content-encoding"] === undefined ? 200 : status).end()
      }
      for (const status of [400, 415]) {
        const { admin, id, org_id, peer } = yield* newTelemetryOrg(`plain ${status}`, refuses(status))
        for (const batches of [1, 2]) {
          yield* sendSpans(org_id, 2)
          yield* awaitBatches(
            admin,
            id,
            (list) => list.length === batches && list.every((one) => one.status === "delivered")
          )
        }
        const sent = peer.exports.map(({ isGzipped, spans }) => [isGzipped, spans.length])
        assert.deepStrictEqual(sent, [
          [true, 2],
          [false, 2],
          [false, 2]
        ])
        assert.strictEqual((yield* shownDestination(admin)).pending_spans, 0)
      }
    })
  )

  it.effect("a destination is sent what its setting says, and a test event too", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const only = (encoding: string | undefined) => (response: ServerResponse, request: IncomingMessage) => {
        response.writeHead(request.headers["content-encoding"] === encoding ? 200 : 400).end()
      }
      for (const [compression, encoding, delivered] of [
        ["auto", undefined, true],
        ["none", undefined, true],
        ["none", "gzip", false],
        ["gzip", "gzip", true],
        ["gzip", undefined, false]
      ] as const) {
        const name = `${compression} ${encoding}`
        const admin = yield* countersign.clientWith(yield* countersign.key({}, name))
        const { url } = yield* startCollector(only(encoding))
        const { id } = yield* admin.telemetryDestinations.create({ payload: { url, compression } })
        const tested = yield* Effect.result(admin.telemetryDestinations.test({ params: { id } }))
        assert.strictEqual(tested._tag === "Success", delivered, name)
        assert.strictEqual((yield* shownDestination(admin)).compression, compression)
      }
    })
  )

  it.effect("spans in flight count as pending", () =>
    Effect.gen(function* () {
      const { admin, id, org_id, peer } = yield* newTelemetryOrg("in flight", ["never"])
      yield* sendSpans(org_id, 4)
      yield* peer.arrived(1)
      assert.strictEqual((yield* shownDestination(admin)).pending_spans, 4)
      const [batch] = yield* awaitBatches(admin, id, (list) => list.length === 1)
      assert.strictEqual(batch?.status, "pending")
    })
  )

  it.effect("a batch fails on a status that OTLP does not retry, with a hint, and can be replayed", () =>
    Effect.gen(function* () {
      const { admin, id, org_id, peer } = yield* newTelemetryOrg("final", [
        { status: 404, body: "no such page" },
        accepted
      ])
      yield* sendSpans(org_id, 2)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      assert.strictEqual(failed.attempts, 1)
      assert.strictEqual(failed.http_status, 404)
      assert.match(failed.last_error ?? "", /^HTTP 404: .*\/v1\/traces/)
      const afterFailure = yield* shownDestination(admin)
      assert.deepStrictEqual(
        [afterFailure.last_error, afterFailure.last_delivered_at],
        [failed.last_error, null]
      )
      const first = peer.spans().map(({ traceId }) => traceId)
      const queued = yield* admin.telemetryDestinations.replayDelivery({
        params: { id, delivery_id: failed.id }
      })
      assert.deepStrictEqual(queued, { queued: true, id: failed.id })
      const delivered = yield* awaitOnlyBatch(admin, id, "delivered")
      assert.deepStrictEqual([delivered.attempts, delivered.replays], [2, 1])
      assert.isNull((yield* shownDestination(admin)).last_error)
      assert.deepStrictEqual(
        peer.exports[1]?.spans.map(({ traceId }) => traceId),
        first
      )
      assert.deepStrictEqual(
        [(yield* shownDestination(admin)).pending_spans, (yield* shownDestination(admin)).dropped_spans],
        [0, 0]
      )
    })
  )

  it.effect("a retryable status is retried after the collector's retry-after", () =>
    Effect.gen(function* () {
      const at = new Date(Date.now() + 2_000).toUTCString()
      const { admin, id, org_id, peer } = yield* newTelemetryOrg("again", [
        { status: 503, headers: { "retry-after": "1" } },
        { status: 429, headers: { "retry-after": at } },
        accepted
      ])
      yield* sendSpans(org_id, 1)
      const delivered = yield* awaitOnlyBatch(admin, id, "delivered")
      assert.strictEqual(delivered.attempts, 3)
      assert.isNull(delivered.last_error)
      assert.lengthOf(peer.exports, 3)
      assert.isNull((yield* shownDestination(admin)).last_error)
    })
  )

  it.effect("a partially accepted batch is recorded as partial and cannot be replayed", () =>
    Effect.gen(function* () {
      const { admin, id, org_id } = yield* newTelemetryOrg("partial", {
        status: 200,
        body: { partialSuccess: { rejectedSpans: "2", errorMessage: `bad attribute, Bearer ${TOKEN}` } }
      })
      yield* sendSpans(org_id, 5)
      const partial = yield* awaitOnlyBatch(admin, id, "partial")
      assert.deepStrictEqual([partial.span_count, partial.rejected_spans], [5, 2])
      assert.strictEqual(partial.last_error, "the collector rejected 2 of 5 spans")
      const { dropped_spans, last_delivered_at, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [0, 2])
      // Only a batch that was accepted whole sets it.
      assert.isNull(last_delivered_at)
      assert.strictEqual(
        yield* problemOf(
          admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: partial.id } })
        ),
        "NOT_REPLAYABLE"
      )
    })
  )

  it.effect("a warning without rejected spans counts as delivered", () =>
    Effect.gen(function* () {
      const { admin, id, org_id } = yield* newTelemetryOrg("warned", {
        status: 200,
        body: { partialSuccess: { rejectedSpans: 0, errorMessage: "use another field" }, unknown: 1 }
      })
      yield* sendSpans(org_id, 1)
      assert.isNull((yield* awaitOnlyBatch(admin, id, "delivered")).last_error)
    })
  )

  /** Misbehaving collectors, and whether the batch is retried. */
  const badPeers: ReadonlyArray<readonly [string, CollectorResponse, RegExp, "failed" | "pending"]> = [
    [
      "echoes the secret",
      { status: 401, body: { error: `Bearer ${TOKEN} is unknown` }, headers: { "x-echo": TOKEN } },
      /^HTTP 401: check the authentication headers/,
      "failed"
    ],
    [
      "answers a page",
      { status: 200, body: `<html>${TOKEN}</html>`, headers: { "content-type": "text/html" } },
      /not OTLP/,
      "failed"
    ],
    [
      "answers without end",
      (response) => {
        response.writeHead(200)
        response.end("x".repeat(200_000))
      },
      /over 64 KiB/,
      "failed"
    ],
    [
      "redirects",
      { status: 307, headers: { location: "http://127.0.0.1:1/" } },
      /redirects are not followed/,
      "failed"
    ],
    ["closes", "hang up", /closed/, "pending"],
    [
      "lies about its length",
      (response) => {
        response.writeHead(200, { "content-length": "1000", "content-type": "application/json" })
        response.write("{}", () => response.destroy())
      },
      /the response was truncated/,
      "pending"
    ],
    [
      "speaks no HTTP",
      (_response, request) => void request.socket.end(`GARBAGE ${TOKEN}\r\n\r\n`),
      /malformed HTTP response/,
      "failed"
    ]
  ]

  for (const [what, answer, phrase, status] of badPeers) {
    it.effect(`last_error contains nothing from a collector that ${what}`, () =>
      Effect.gen(function* () {
        const { admin, id, org_id } = yield* newTelemetryOrg(what, answer)
        yield* sendSpans(org_id, 1)
        const [batch] = yield* awaitBatches(admin, id, ([first]) => (first?.last_error ?? null) !== null)
        assert.strictEqual(batch?.status, status)
        assert.match(batch?.last_error ?? "", phrase)
        assert.match((yield* shownDestination(admin)).last_error ?? "", phrase)
        const store = yield* databaseAsText
        assert.notInclude(store, TOKEN)
        assert.notInclude(store, Buffer.from(TOKEN).toString("hex"))
        assert.notInclude(store, "private-path")
      })
    )
  }

  it.effect("hanging collectors of five organizations do not delay other organizations' spans", () =>
    Effect.gen(function* () {
      const spans = yield* Spans
      const hanging = yield* Effect.forEach([1, 2, 3, 4, 5], (number) =>
        newTelemetryOrg(`hanging ${number}`, "never")
      )
      const well = yield* newTelemetryOrg("well")
      // One batch each time: as many concurrent requests as one collector may have.
      for (let count = 0; count < 8; count++) {
        for (const { org_id } of hanging) yield* recordSpans(org_id, 1)
        yield* spans.flush
      }
      yield* sendSpans(well.org_id, 1)
      yield* awaitOnlyBatch(well.admin, well.id, "delivered")
      for (const { admin, id, params } of hanging) {
        const list = yield* awaitBatches(admin, id, ({ length }) => length === 8)
        // None of their requests had to end first.
        assert.isTrue(list.every(({ attempts, status }) => status === "pending" && attempts === 0))
        yield* admin.telemetryDestinations.remove({ params })
      }
    })
  )

  it.effect("removing a destination drops pending spans and those recorded later", () =>
    Effect.gen(function* () {
      const { admin, id, org_id, params, peer } = yield* newTelemetryOrg("removed", {
        status: 503,
        headers: { "retry-after": "300" }
      })
      yield* sendSpans(org_id, 2)
      yield* awaitBatches(admin, id, ([first]) => first?.attempts === 1)
      yield* admin.telemetryDestinations.remove({ params })
      assert.deepStrictEqual(yield* admin.telemetryDestinations.list(), { destinations: [] })
      assert.strictEqual(
        yield* problemOf(admin.telemetryDestinations.listDeliveries({ params })),
        "NOT_FOUND"
      )
      yield* sendSpans(org_id, 2)
      // A new destination starts from zero and receives nothing recorded before.
      const { id: next } = yield* admin.telemetryDestinations.create({ payload: { url: peer.url } })
      peer.answer(accepted)
      yield* sendSpans(org_id, 1)
      const batch = yield* awaitOnlyBatch(admin, next, "delivered")
      assert.strictEqual(batch.span_count, 1)
      assert.strictEqual(peer.exports.at(-1)?.path, "/v1/traces")
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [0, 0])
    })
  )

  it.effect("the spans of an expired failed batch are deleted and counted as dropped", () =>
    Effect.gen(function* () {
      const { admin, id, org_id } = yield* newTelemetryOrg("old", { status: 400 })
      yield* sendSpans(org_id, 3)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      assert.strictEqual((yield* deleteExpired("telemetry_retention", "72 hours")).removed, 0)
      assert.isAtLeast((yield* deleteExpired("telemetry_retention", 0)).removed, 1)
      assert.strictEqual(
        yield* problemOf(
          admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: failed.id } })
        ),
        "NOT_REPLAYABLE"
      )
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [0, 3])
    })
  )

  it.effect("the spans of a batch that is still to be sent are kept, however old they are", () =>
    Effect.gen(function* () {
      const later = { status: 503, headers: { "retry-after": "60" } }
      const { admin, id, org_id, params } = yield* newTelemetryOrg("old and pending", later)
      const sql = yield* SqlClient.SqlClient
      yield* sendSpans(org_id, 3)
      yield* awaitBatches(admin, id, ([first]) => first?.attempts === 1)
      yield* deleteExpired("telemetry_retention", 0)
      assert.lengthOf(yield* sql`SELECT 1 FROM telemetry_batches WHERE org_id = ${org_id}`, 1)
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [3, 0])
      yield* admin.telemetryDestinations.remove({ params })
    })
  )

  it.effect("the spans of a failed batch are deleted also if its log row expired earlier", () =>
    Effect.gen(function* () {
      const { admin, id, org_id } = yield* newTelemetryOrg("unlogged", { status: 400 })
      const sql = yield* SqlClient.SqlClient
      yield* sendSpans(org_id, 3)
      yield* awaitOnlyBatch(admin, id, "failed")
      // As after COUNTERSIGN_NOTIFY_RETENTION_DAYS, if that is shorter than the retention of payloads.
      yield* sql`DELETE FROM deliveries WHERE org_id = ${org_id}`
      yield* deleteExpired("telemetry_retention", 0)
      assert.deepStrictEqual(yield* sql`SELECT 1 FROM telemetry_batches WHERE org_id = ${org_id}`, [])
      assert.strictEqual((yield* shownDestination(admin)).dropped_spans, 3)
    })
  )

  it.effect("spans whose delivery expires in the queue count as dropped and no longer as pending", () =>
    Effect.gen(function* () {
      const { admin, org_id, peer } = yield* newTelemetryOrg("waited too long", "never")
      const sql = yield* SqlClient.SqlClient
      yield* sendSpans(org_id, 6)
      yield* peer.arrived(1)
      const older = sql.literal("left(delivery_id, 4) || '0000' || right(delivery_id, 28)")
      yield* sql`UPDATE delivery_queue SET delivery_id = ${older} WHERE org_id = ${org_id}`
      yield* sql`UPDATE telemetry_batches SET delivery_id = ${older} WHERE org_id = ${org_id}`
      yield* sql`
        UPDATE deliveries
        SET delivery_id = ${older}, created_at = created_at - interval '31 days'
        WHERE org_id = ${org_id}
      `
      yield* Effect.flatMap(Delivery, (delivery) => delivery.runRetention)
      assert.strictEqual((yield* shownDestination(admin)).pending_spans, 0)
      yield* deleteExpired("telemetry_retention", 0)
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [0, 6])
    })
  )

  it.effect("nothing is written for an organization without a destination", () =>
    Effect.gen(function* () {
      const { admin, org_id, params } = yield* newTelemetryOrg("none")
      yield* admin.telemetryDestinations.remove({ params })
      const spans = yield* Spans
      const sql = yield* SqlClient.SqlClient
      yield* sendSpans(org_id, 5)
      assert.deepStrictEqual(spans.localCounts(org_id), { waiting: 0, dropped: 0 })
      assert.deepStrictEqual(yield* sql`SELECT 1 FROM telemetry_batches WHERE org_id = ${org_id}`, [])
      assert.deepStrictEqual(yield* sql`SELECT 1 FROM deliveries WHERE org_id = ${org_id}`, [])
    })
  )
})

layer(service({ environment: { ...byHand, COUNTERSIGN_TELEMETRY_QUEUE_LIMIT: "6" } }), {
  excludeTestServices: true
})("Span queue limit", (it) => {
  it.effect("spans beyond the queue limit are dropped and counted", () =>
    Effect.gen(function* () {
      const { admin, id, org_id, peer } = yield* newTelemetryOrg("limited", ["never"])
      yield* sendSpans(org_id, 4)
      yield* peer.arrived(1)
      yield* sendSpans(org_id, 4)
      const full = yield* shownDestination(admin)
      assert.deepStrictEqual([full.pending_spans, full.dropped_spans], [6, 2])
      yield* admin.telemetryDestinations.remove({ params: { id } })
    })
  )

  it.effect("spans that another replica stores meanwhile count toward the queue limit", () =>
    Effect.gen(function* () {
      const { admin, org_id, params } = yield* newTelemetryOrg("two replicas")
      const sql = yield* SqlClient.SqlClient
      const spans = yield* Spans
      const stored = yield* Deferred.make<void>()
      const waited = yield* Deferred.make<void>()
      yield* recordSpans(org_id, 4)
      const other = yield* Effect.forkChild(
        sql.withTransaction(
          sql`UPDATE telemetry_destinations SET waiting_spans = 4 WHERE org_id = ${org_id}`.pipe(
            Effect.andThen(Deferred.succeed(stored, undefined)),
            Effect.andThen(Deferred.await(waited))
          )
        )
      )
      yield* Deferred.await(stored)
      const flush = yield* Effect.forkChild(spans.flush)
      yield* waitForBlockedStatements(1)
      yield* Deferred.succeed(waited, undefined)
      yield* Fiber.join(other)
      yield* Fiber.join(flush)
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [4, 4])
      yield* admin.telemetryDestinations.remove({ params })
    })
  )

  it.effect("spans are admitted again as soon as the collector has accepted others", () =>
    Effect.gen(function* () {
      const { admin, id, org_id } = yield* newTelemetryOrg("room again")
      for (let round = 1; round <= 3; round++) {
        yield* sendSpans(org_id, 6)
        yield* awaitBatches(
          admin,
          id,
          (list) => list.filter(({ status }) => status === "delivered").length === round
        )
      }
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [0, 0])
    })
  )

  it.effect("a replay is refused while spans that are not stored yet fill the queue", () =>
    Effect.gen(function* () {
      const { admin, id, org_id } = yield* newTelemetryOrg("full in memory", [{ status: 404 }, accepted])
      yield* sendSpans(org_id, 1)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      const replay = admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: failed.id } })
      yield* recordSpans(org_id, 6)
      assert.strictEqual((yield* shownDestination(admin)).pending_spans, 6)
      assert.strictEqual(yield* problemOf(replay), "QUEUE_FULL")
      yield* Effect.flatMap(Spans, (spans) => spans.flush)
      yield* awaitBatches(admin, id, (list) => list.some(({ status }) => status === "delivered"))
      assert.isTrue((yield* replay).queued)
      assert.strictEqual((yield* shownDestination(admin)).dropped_spans, 0)
    })
  )

  it.effect("a replay beyond the queue limit is refused with QUEUE_FULL", () =>
    Effect.gen(function* () {
      const { admin, id, org_id, peer } = yield* newTelemetryOrg("full", [{ status: 404 }, "never"])
      yield* sendSpans(org_id, 3)
      const failed = yield* awaitOnlyBatch(admin, id, "failed")
      yield* sendSpans(org_id, 4)
      yield* peer.arrived(2)
      assert.strictEqual(
        yield* problemOf(
          admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: failed.id } })
        ),
        "QUEUE_FULL"
      )
      const [, again] = yield* awaitBatches(admin, id, (list) => list.length === 2)
      assert.strictEqual(again?.status, "failed")
      assert.strictEqual((yield* shownDestination(admin)).pending_spans, 4)
    })
  )
})
