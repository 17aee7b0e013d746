import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { gunzipSync } from "node:zlib"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { runOnce } from "../../../src/server/telemetry/eraseSpans.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { payloadPlace } from "../../../src/server/telemetry/Spans/storeBatches.ts"
import { eventually } from "../../support/eventually.ts"
import { createDesk } from "../../support/feedback.ts"
import { startCollector } from "../../support/otlp/collector.ts"
import { service } from "../../support/service.ts"

/** The decrypted requests that wait for delivery or can be replayed. */
const waiting = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const batches = yield* sql<{
    readonly org_id: string
    readonly batch_id: string
    readonly payload: Uint8Array
  }>`
    SELECT org_id, batch_id, payload FROM telemetry_batches WHERE length(batch_id) > 10 ORDER BY batch_id
  `
  const texts = yield* Effect.forEach(batches, ({ batch_id, org_id, payload }) =>
    Effect.map(box.unsealBytes(payloadPlace(org_id, batch_id), payload), (bytes) =>
      gunzipSync(bytes).toString("utf8")
    )
  )
  return texts.join("\n")
})

layer(service({ environment: { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "1" } }), { excludeTestServices: true })(
  "Erasure of spans",
  (it) => {
    it.effect(
      "the spans of a deleted run are removed from the batches that wait, and others are delivered",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { admin, run } = yield* createDesk("erase spans")
          const collector = yield* startCollector({ status: 400 })
          const destination = yield* admin.telemetry_destinations.create({
            payload: { url: `${collector.url}/v1/traces`, content: true }
          })
          const erased = yield* run("narwhal")
          const kept = yield* run("beluga")
          yield* Effect.flatMap(Spans, ({ flush }) => flush)
          const deliveries = Effect.map(
            admin.telemetry_destinations.deliveries({ params: { id: destination.id } }),
            (page) => page.deliveries
          )
          yield* eventually(deliveries, (list) => list.some(({ status }) => status === "failed"))
          assert.include(yield* waiting, "narwhal")

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
          yield* admin.runs.remove({ params: { trace_id: erased } })
          yield* eventually(Effect.andThen(runOnce(), waiting), (text) => !text.includes("narwhal"))
          const text = yield* waiting
          assert.notInclude(text, erased)
          assert.include(text, "beluga")

          // Once more, for spans that a replica had buffered; then the trace is forgotten.
          yield* eventually(
            sql`SELECT 1 FROM erased_traces WHERE due_at > erased_at`,
            (rows) => rows.length === 1
          )
          yield* sql`UPDATE erased_traces SET due_at = erased_at + interval '1 millisecond'`
          yield* eventually(
            Effect.andThen(runOnce(), sql`SELECT 1 FROM erased_traces`),
            (rows) => rows.length === 0
          )

          collector.answer({ status: 200, body: { partialSuccess: {} } })
          for (const { id, status } of yield* deliveries) {
            if (status !== "failed") continue
            yield* admin.telemetry_destinations.replay({ params: { id: destination.id, delivery: id } })
          }
          yield* eventually(deliveries, (list) => list.every(({ status }) => status === "delivered"))
          assert.deepStrictEqual(collector.faults, [])
          const exported = JSON.stringify(collector.exports.at(-1)?.spans)
          assert.include(exported, kept)
          assert.notInclude(exported, erased)
          const { destinations } = yield* admin.telemetry_destinations.list()
          assert.deepInclude(destinations[0], { pending_spans: 0, dropped_spans: 0 })
        }).pipe(Effect.scoped)
    )
  }
)
