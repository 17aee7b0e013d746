import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { NewComparison } from "../../../../src/api/Comparisons.ts"
import { Spans } from "../../../../src/server/telemetry/Spans.ts"
import { eventually } from "../../../support/eventually.ts"
import { startCollector } from "../../../support/otlp/collector.ts"
import { type ScriptedReply, startScriptedServer } from "../../../support/scripted.ts"
import { service } from "../../../support/service.ts"
import { createTeamClients, sortingExamples, sortingTask } from "../../../support/tasks.ts"

const environment = { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300", COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" }

/** A chat completion of this answer. */
const completion = (answer: object): ScriptedReply => ({
  status: 200,
  body: {
    choices: [{ finish_reason: "stop", message: { role: "assistant", content: JSON.stringify(answer) } }],
    usage: { prompt_tokens: 10, completion_tokens: 2 }
  }
})

/** A task whose model answers "billing" instead of "other", in an organization whose collector gets content. */
const newTask = Effect.fnUntraced(function* (organization: string) {
  const { admin } = yield* createTeamClients(organization)
  const peer = yield* startCollector()
  yield* admin.telemetryDestinations.create({ payload: { url: peer.url, content: true } })
  const model = yield* startScriptedServer([completion({ category: "billing" })])
  const { id: task_id } = yield* admin.tasks.create({
    payload: { ...sortingTask, provider: { kind: "openai", base_url: model.url, model: "small" } }
  })
  const params = { id: task_id }
  const [example] = sortingExamples(["a private message", "other"])
  yield* admin.datasets.create({ params, payload: { examples: [example!] } })
  const compare = Effect.fnUntraced(function* (payload: NewComparison) {
    const { comparison } = yield* admin.comparisons.create({ params, payload })
    return yield* eventually(
      admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
      (found) => found.comparison.status === "completed"
    )
  })
  return { compare, peer, task_id }
})

layer(service({ environment }), { excludeTestServices: true })("Comparisons › spans", (it) => {
  it.effect(
    "the calls of both sides and of the judge are spans below one span per example, without content",
    () =>
      Effect.gen(function* () {
        const { compare, peer, task_id } = yield* newTask("compared")
        const judge = yield* startScriptedServer([completion({ reason: "They differ.", agrees: false })])
        const { comparison, results } = yield* compare({
          candidate: { instructions: "Sort the private message." },
          judge: { provider: { kind: "openai", base_url: judge.url, model: "judge" } }
        })
        yield* (yield* Spans).flush
        yield* peer.arrived(1)
        assert.deepStrictEqual(peer.faults, [])
        const [root, ...calls] = peer.spans()
        assert.deepInclude(root, { name: "svc.comparison", parentSpanId: undefined })
        const example = {
          "svc.task.id": task_id,
          "svc.comparison.id": comparison.id,
          "svc.example.id": results[0]?.example_id
        }
        assert.deepStrictEqual(root?.attributes, example)
        assert.strictEqual(comparison.spent.calls, 4)
        assert.sameDeepMembers(
          calls.map(({ attributes, name }) => [
            name,
            attributes["svc.comparison.side"],
            attributes["svc.comparison.role"]
          ]),
          [
            ["chat small", "candidate", "answer"],
            ["chat small", "live", "answer"],
            ["chat judge", "candidate", "judge"],
            ["chat judge", "live", "judge"]
          ]
        )
        for (const call of calls) {
          assert.deepStrictEqual([call.traceId, call.parentSpanId], [root?.traceId, root?.spanId])
          assert.isAtLeast(call.startMillis, root?.startMillis ?? Number.NaN)
          assert.isAtMost(call.endMillis, root?.endMillis ?? Number.NaN)
          assert.deepInclude(call.attributes, {
            ...example,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.usage.input_tokens": 10n,
            "gen_ai.usage.output_tokens": 2n
          })
        }
        assert.strictEqual(new Set(peer.spans().map(({ spanId }) => spanId)).size, 5)
        const texts = peer
          .spans()
          .flatMap(({ attributes, name }) => [name, ...Object.values(attributes).map(String)])
        assert.notMatch(texts.join(" "), /private|billing|They differ/)
      }).pipe(Effect.scoped)
  )

  it.effect("a failed call is a failed span, and a side without a model has none", () =>
    Effect.gen(function* () {
      const { compare, peer } = yield* newTask("failed")
      const refusing = yield* startScriptedServer([{ status: 401, body: {} }])
      yield* compare({ candidate: { provider: { kind: "examples" } }, hold_out: { kind: "none" } })
      yield* compare({ candidate: { provider: { kind: "openai", base_url: refusing.url, model: "other" } } })
      yield* (yield* Spans).flush
      yield* peer.arrived(1)
      const calls = peer.spans().filter(({ name }) => name.startsWith("chat"))
      assert.sameDeepMembers(
        calls.map(({ attributes, name, statusCode }) => [
          name,
          attributes["svc.comparison.side"],
          attributes["error.type"],
          statusCode
        ]),
        [
          ["chat small", "live", undefined, 0],
          ["chat small", "live", undefined, 0],
          ["chat other", "candidate", "401", 2]
        ]
      )
      assert.strictEqual(new Set(calls.map(({ traceId }) => traceId)).size, 2, "a trace per example")
    }).pipe(Effect.scoped)
  )
})
