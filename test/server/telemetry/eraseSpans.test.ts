import { assert, layer } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber, Logger, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { gzipSync } from "node:zlib"
import type { ClientCalls } from "../../../src/client/Client.ts"
import {
  type OrgId,
  type TelemetryDeliveryId,
  type TelemetryDestinationId,
  TraceId
} from "../../../src/domain/Ids.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { rememberTraces, runOnce } from "../../../src/server/telemetry/eraseSpans.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { RecentPayloads } from "../../../src/server/telemetry/Spans/RecentPayloads.ts"
import { payloadPlace } from "../../../src/server/telemetry/Spans/storeBatches.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { createDesk } from "../../support/feedback.ts"
import { accepted, startCollector } from "../../support/otlp/collector.ts"
import { storedRequests } from "../../support/otlp/storedRequests.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

const environment = {
  COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "1",
  COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8"
}

/** Sends the buffered spans, and waits until the collector has refused all batches of a destination. */
const failAll = Effect.fnUntraced(function* (
  admin: ClientCalls,
  destination: { readonly id: TelemetryDestinationId }
) {
  yield* Effect.flatMap(Spans, ({ flush }) => flush)
  yield* eventually(
    admin.telemetryDestinations.listDeliveries({ params: { id: destination.id } }),
    ({ deliveries }) => deliveries.length > 0 && deliveries.every(({ status }) => status === "failed")
  )
})

layer(service({ environment }), { excludeTestServices: true })("Erasure of spans", (it) => {
  it.effect(
    "the spans of a deleted run are removed from the batches that wait, and others are delivered",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin, run } = yield* createDesk("erase spans")
        const collector = yield* startCollector({ status: 400 })
        const destination = yield* admin.telemetryDestinations.create({
          payload: { url: `${collector.url}/v1/traces`, content: true }
        })
        const erased = yield* run("narwhal")
        const kept = yield* run("beluga")
        yield* Effect.flatMap(Spans, ({ flush }) => flush)
        const deliveries = Effect.map(
          admin.telemetryDestinations.listDeliveries({ params: { id: destination.id } }),
          (page) => page.deliveries
        )
        // The flush of every second may have put the two runs into two batches.
        yield* eventually(
          deliveries,
          (list) => list.length > 0 && list.every(({ status }) => status === "failed")
        )
        assert.include(yield* storedRequests, "narwhal")

        // Neither a batch of scores nor one that cannot be read holds up the others.
        const box = yield* SecretBox
        const [batch] = yield* sql<{ readonly org_id: string; readonly destination_id: string }>`
          SELECT org_id, destination_id FROM telemetry_batches LIMIT 1
        `
        const org_id = batch?.org_id ?? assert.fail("no batch")
        for (const [batch_id, signal] of [
          ["evt_0", "scores"],
          ["evt_00", "spans"]
        ] as const) {
          const payload = yield* box.sealBytes(payloadPlace(org_id, batch_id), Buffer.from("no gzip"))
          yield* sql`
            INSERT INTO telemetry_batches (org_id, batch_id, destination_id, spans, payload, signal)
            VALUES (${org_id}, ${batch_id}, ${batch?.destination_id ?? ""}, 1, ${payload}, ${signal})
          `
        }
        yield* admin.runs.remove({ params: { id: erased } })
        yield* eventually(Effect.andThen(runOnce(), storedRequests), (text) => !text.includes("narwhal"))
        const text = yield* storedRequests
        assert.notInclude(text, erased)
        assert.include(text, "beluga")

        // Once more, for spans that a replica had buffered; then the trace is forgotten.
        yield* eventually(
          sql`SELECT 1 FROM erased_traces WHERE due_at > erased_at`,
          (rows) => rows.length === 1
        )
        const isDue = sql`UPDATE erased_traces SET due_at = erased_at + interval '1 millisecond'`
        // As if its master key were missing: it can be replayed when the key is there again.
        yield* sql`
          INSERT INTO telemetry_batches (org_id, batch_id, destination_id, spans, payload, signal)
          VALUES (${org_id}, 'evt_000', ${batch?.destination_id ?? ""}, 1, 'no key', 'spans')
        `
        yield* isDue
        yield* eventually(
          Effect.andThen(runOnce(), sql`SELECT 1 FROM erased_traces WHERE due_at > now()`),
          (rows) => rows.length === 1
        )
        yield* sql`DELETE FROM telemetry_batches WHERE batch_id = 'evt_000'`
        yield* isDue
        yield* eventually(
          Effect.andThen(runOnce(), sql`SELECT 1 FROM erased_traces`),
          (rows) => rows.length === 0
        )

        const refused = collector.exports.length
        collector.answer({ status: 200, body: { partialSuccess: {} } })
        for (const { id, status } of yield* deliveries) {
          if (status !== "failed") continue
          yield* admin.telemetryDestinations.replayDelivery({
            params: { id: destination.id, delivery_id: id }
          })
        }
        yield* eventually(deliveries, (list) => list.every(({ status }) => status === "delivered"))
        assert.deepStrictEqual(collector.faults, [])
        const exported = JSON.stringify(collector.exports.slice(refused).map(({ spans }) => spans))
        assert.include(exported, kept)
        assert.notInclude(exported, erased)
        const { destinations } = yield* admin.telemetryDestinations.list()
        assert.deepInclude(destinations[0], { pending_spans: 0, dropped_spans: 0 })
      }).pipe(Effect.scoped)
  )

  it.effect("spans that are stored after their run was deleted are not sent", () =>
    Effect.gen(function* () {
      const { admin, run } = yield* createDesk("erase buffered")
      const collector = yield* startCollector()
      const destination = yield* admin.telemetryDestinations.create({
        payload: { url: `${collector.url}/v1/traces`, content: true }
      })
      const sql = yield* SqlClient.SqlClient
      const { flush } = yield* Spans
      // The lock keeps the spans in memory until the run is deleted.
      const deleted = yield* Deferred.make<void>()
      const locked = yield* Deferred.make<void>()
      const lock = yield* sql`SELECT 1 FROM telemetry_destinations FOR UPDATE`.pipe(
        Effect.andThen(Deferred.succeed(locked, undefined)),
        Effect.andThen(Deferred.await(deleted)),
        sql.withTransaction,
        Effect.forkChild
      )
      yield* Deferred.await(locked)
      const trace_id = yield* run("narwhal")
      yield* run("beluga")
      yield* admin.runs.remove({ params: { id: trace_id } })
      yield* Deferred.succeed(deleted, undefined)
      yield* Fiber.join(lock)
      yield* flush
      const deliveries = admin.telemetryDestinations.listDeliveries({ params: { id: destination.id } })
      // The flush of every second may have put the two runs into two batches.
      yield* eventually(
        deliveries,
        (list) => list.deliveries.length > 0 && list.deliveries.every(({ status }) => status !== "pending")
      )
      assert.deepStrictEqual(collector.faults, [])
      const sent = JSON.stringify(collector.spans())
      assert.include(sent, "beluga")
      assert.notInclude(sent, "narwhal")
    }).pipe(Effect.scoped)
  )

  it.effect(
    "a replay does not send erased spans that the replica has in memory since another sent the batch",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const box = yield* SecretBox
        const recentPayloads = yield* RecentPayloads
        const { admin, run } = yield* createDesk("erase in memory")
        const collector = yield* startCollector({ status: 400 })
        const destination = yield* admin.telemetryDestinations.create({
          payload: { url: `${collector.url}/v1/traces`, content: true }
        })
        const erased = yield* run("narwhal")
        yield* run("beluga")
        yield* failAll(admin, destination)
        const batches = yield* sql<{
          readonly org_id: OrgId
          readonly batch_id: string
          readonly delivery_id: TelemetryDeliveryId
          readonly payload: Uint8Array
          readonly version: string
        }>`
        SELECT org_id, batch_id, delivery_id, payload, xmin::text AS version
        FROM telemetry_batches
        WHERE destination_id = ${destination.id}
      `
        for (const { batch_id, org_id, payload, version } of batches) {
          const request = yield* box.unsealBytes(payloadPlace(org_id, batch_id), payload)
          recentPayloads.keep(batch_id, { request, version })
        }
        yield* admin.runs.remove({ params: { id: erased } })
        yield* eventually(Effect.andThen(runOnce(), storedRequests), (text) => !text.includes("narwhal"))
        // As after the second search.
        yield* sql`DELETE FROM erased_traces`
        collector.answer(accepted)
        for (const { delivery_id } of batches) {
          yield* admin.telemetryDestinations.replayDelivery({
            params: { id: destination.id, delivery_id: delivery_id }
          })
        }
        yield* eventually(
          admin.telemetryDestinations.listDeliveries({ params: { id: destination.id } }),
          ({ deliveries }) => deliveries.every(({ status }) => status === "delivered")
        )
        const sent = JSON.stringify(collector.exports.slice(-batches.length).map(({ spans }) => spans))
        assert.include(sent, "beluga")
        assert.notInclude(sent, "narwhal")
      }).pipe(Effect.scoped)
  )

  it.effect("the log does not quote a batch that cannot be read", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const { admin, run } = yield* createDesk("erase unreadable")
      const collector = yield* startCollector({ status: 400 })
      const { id } = yield* admin.telemetryDestinations.create({
        payload: { url: `${collector.url}/v1/traces`, content: true }
      })
      const trace_id = yield* run("seal")
      const [destination] = yield* sql<{ readonly org_id: OrgId }>`
        SELECT org_id FROM telemetry_destinations WHERE destination_id = ${id}
      `
      const org_id = destination?.org_id ?? assert.fail("no destination")
      for (const [batch_id, text] of [
        ["evt_1", "dolphin"],
        ["evt_2", `{"resourceSpans":"dolphin"}`]
      ] as const) {
        const payload = yield* box.sealBytes(payloadPlace(org_id, batch_id), gzipSync(text))
        yield* sql`
          INSERT INTO telemetry_batches (org_id, batch_id, destination_id, spans, payload, signal)
          VALUES (${org_id}, ${batch_id}, ${id}, 1, ${payload}, 'spans')
        `
      }
      const lines: Array<string> = []
      const capture = Logger.make(
        ({ cause, message }) => void lines.push(inspect([message, cause], { depth: 9 }))
      )
      yield* sql
        .withTransaction(
          Effect.gen(function* () {
            const now = yield* (yield* StoreClock).now
            // Due before all others, and for this search alone.
            yield* rememberTraces(sql, org_id, [trace_id], DateTime.subtract(now, { days: 1 }))
            yield* runOnce()
            yield* sql`DELETE FROM erased_traces WHERE org_id = ${org_id}`
          })
        )
        .pipe(Effect.provide(Logger.layer([capture])))
      assert.lengthOf(
        lines.filter((line) => line.includes("Could not read the batch evt_")),
        2
      )
      assert.notInclude(lines.join(), "dolphin")
    }).pipe(Effect.scoped)
  )

  it.effect(
    "a deleted run is removed from its caller's trace with its calls and feedback; other runs stay",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const key = yield* countersign.key({}, "erase joined spans")
        const admin = yield* countersign.clientWith(key)
        const collector = yield* startCollector({ status: 400 })
        const message = { role: "assistant", content: `{"category":"other"}` }
        const model = yield* startScriptedServer([{ status: 200, body: { choices: [{ message }] } }])
        const destination = yield* admin.telemetryDestinations.create({
          payload: { url: `${collector.url}/v1/traces`, content: true, trace: "join" }
        })
        const { id: task_id } = yield* admin.tasks.create({
          payload: {
            ...sortingTask,
            provider: { kind: "openai", base_url: `${model.url}/v1`, model: "small", send_traceparent: true }
          }
        })
        const run = Effect.fnUntraced(function* (text: string, traceparent: string) {
          const { body } = yield* send(`/v1/tasks/${task_id}/run`, {
            key,
            method: "POST",
            headers: { traceparent },
            body: JSON.stringify({ input: { text } })
          })
          return Schema.decodeUnknownSync(TraceId)(body["trace_id"])
        })
        const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        const erased = yield* run("narwhal", caller)
        // The model of the deleted run makes a run too, in the same trace.
        yield* run("orca", String(model.seen[0]?.headers["traceparent"]))
        const kept = yield* run("beluga", caller)
        yield* failAll(admin, destination)
        const feedback = yield* admin.feedback.create({ payload: { inference_log_id: erased, score: 1 } })
        const other = yield* admin.feedback.create({ payload: { inference_log_id: kept, score: 1 } })
        yield* failAll(admin, destination)
        const before = yield* storedRequests
        for (const text of ["narwhal", erased, feedback.id]) assert.include(before, text)

        yield* admin.runs.remove({ params: { id: erased } })
        yield* eventually(
          Effect.andThen(runOnce(), storedRequests),
          (text) => !text.includes("narwhal") && !text.includes(feedback.id)
        )
        const after = yield* storedRequests
        assert.notInclude(after, erased)
        for (const text of ["orca", "beluga", kept, other.id]) {
          assert.strictEqual(after.split(text).length, before.split(text).length, text)
        }
      }).pipe(Effect.scoped)
  )
})
