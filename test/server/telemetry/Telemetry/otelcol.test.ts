import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Spans } from "../../../../src/server/telemetry/Spans.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { hasCollector, openTelemetryCollector } from "../../../support/otlp/otelcol.ts"
import { send, service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"
import { eventually } from "../../../support/eventually.ts"

/** Spans are flushed only by the test. */
const byHand = { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300" }

layer(service({ environment: byHand }), { excludeTestServices: true })("OpenTelemetry Collector", (it) => {
  it.effect.runIf(hasCollector)("a real collector accepts every span and forwards it unchanged", () =>
    Effect.gen(function* () {
      const peer = yield* openTelemetryCollector
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "otelcol")
      const admin = yield* countersign.clientWith(key)
      const { id } = yield* admin.telemetryDestinations.create({ payload: { url: peer.url } })
      const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
      yield* admin.datasets.create({
        params: { id: task_id },
        payload: { examples: [{ input: { text: "where is it" }, answer: { category: "shipping" } }] }
      })
      const answered = yield* send(`/v1/tasks/${task_id}/run`, {
        key: Redacted.value(key),
        method: "POST",
        body: JSON.stringify({ input: { text: "where is my parcel" } })
      })
      assert.strictEqual(answered.status, 200)
      const trace_id = answered.body["trace_id"]
      yield* Effect.flatMap(Spans, (spans) => spans.flush)

      const { deliveries } = yield* eventually(
        admin.telemetryDestinations.listDeliveries({ params: { id } }),
        ({ deliveries }) => deliveries[0] !== undefined && deliveries[0].status !== "pending"
      )
      const { http_status, rejected_spans, span_count, status } = deliveries[0] ?? assert.fail("a delivery")
      assert.deepStrictEqual([status, http_status, rejected_spans], ["delivered", 200, 0])
      const spans = yield* eventually(Effect.sync(peer.spans), (list) => list.length === span_count)
      const run = spans.find(({ name }) => name === "svc.run sort messages")
      assert.strictEqual(run?.traceId, trace_id)
      assert.strictEqual(run?.attributes["svc.task.id"], task_id)
      assert.strictEqual(run?.traceState, "ot=th:0")
      assert.isTrue(spans.every(({ traceId }) => traceId === trace_id))
    })
  )
})
