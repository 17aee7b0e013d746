import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Spans } from "../../../../src/server/telemetry/Spans.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { startCollector } from "../../../support/otlp/collector.ts"
import { startScriptedServer } from "../../../support/scripted.ts"
import { send, service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"

const environment = { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300", COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" }

const caller = { trace: "0af7651916cd43dd8448eb211c80319c", span: "b7ad6b7169203331" }

/** A task whose model gets a `traceparent`, in an organization with a collector. */
const newTracedTask = Effect.fnUntraced(function* (organization: string, trace: "own" | "join") {
  const countersign = yield* Countersign
  const key = yield* countersign.key({}, organization)
  const admin = yield* countersign.clientWith(key)
  const peer = yield* startCollector()
  const model = yield* startScriptedServer([
    {
      status: 200,
      body: { choices: [{ message: { role: "assistant", content: `{"category":"other"}` } }] }
    }
  ])
  yield* admin.telemetryDestinations.create({ payload: { url: peer.url, trace } })
  const { id: task_id } = yield* admin.tasks.create({
    payload: {
      ...sortingTask,
      provider: { kind: "openai", base_url: `${model.url}/v1`, model: "small", send_traceparent: true }
    }
  })
  const run = (traceparent: string) =>
    send(`/v1/tasks/${task_id}/run`, {
      key,
      method: "POST",
      headers: { traceparent },
      body: JSON.stringify({ input: { text: "words" } })
    })
  return { admin, peer, model, run }
})

layer(service({ environment }), { excludeTestServices: true })("Telemetry › joined traces", (it) => {
  it.effect(
    "a run, its model call and its feedback continue the caller's trace, also in the model server",
    () =>
      Effect.gen(function* () {
        const { admin, model, peer, run } = yield* newTracedTask("joins", "join")
        const spans = yield* Spans
        const answered = yield* run(`00-${caller.trace}-${caller.span}-01`)
        const trace_id = String(answered.body["trace_id"])
        assert.notStrictEqual(trace_id, caller.trace)
        yield* admin.feedback.create({ payload: { inference_log_id: trace_id, score: 1 } })
        yield* spans.flush
        yield* peer.spansArrived(3)
        assert.deepStrictEqual(peer.faults, [])
        const seen = peer.spans()
        const named = (name: string) => seen.find((span) => span.name === name) ?? assert.fail(name)
        const [root, call, feedback] = [
          named("svc.run sort messages"),
          named("chat small"),
          named("svc.feedback")
        ]
        assert.deepStrictEqual([...new Set(seen.map(({ traceId }) => traceId))], [caller.trace])
        assert.strictEqual(root.parentSpanId, caller.span)
        assert.strictEqual(call.parentSpanId, root.spanId)
        assert.strictEqual(feedback.parentSpanId, call.spanId)
        assert.strictEqual(root.attributes["svc.run.trace_id"], trace_id)
        assert.deepStrictEqual(root.links, [])
        assert.isUndefined(root.traceState)
        assert.strictEqual(model.seen[0]?.headers["traceparent"], `00-${caller.trace}-${call.spanId}-01`)
      })
  )

  it.effect("a run is not exported into a caller's trace that is not sampled", () =>
    Effect.gen(function* () {
      const { model, peer, run } = yield* newTracedTask("unsampled", "join")
      const spans = yield* Spans
      yield* run(`00-${caller.trace}-${caller.span}-00`)
      const own = yield* run("")
      yield* spans.flush
      yield* peer.spansArrived(2)
      assert.deepStrictEqual([...new Set(peer.spans().map(({ traceId }) => traceId))], [own.body["trace_id"]])
      assert.match(String(model.seen[0]?.headers["traceparent"]), new RegExp(`^00-${caller.trace}-.*-00$`))
    })
  )

  it.effect("by default a run is a trace of its own, which the model call names", () =>
    Effect.gen(function* () {
      const { model, peer, run } = yield* newTracedTask("owns", "own")
      const spans = yield* Spans
      const answered = yield* run(`00-${caller.trace}-${caller.span}-01`)
      yield* spans.flush
      yield* peer.spansArrived(2)
      const call = peer.spans().find(({ name }) => name === "chat small")
      assert.strictEqual(
        model.seen[0]?.headers["traceparent"],
        `00-${String(answered.body["trace_id"])}-${call?.spanId}-03`
      )
    })
  )
})
