import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { generateTraceId, StepId, type TraceId } from "../../../src/domain/Ids.ts"
import type { ModelCall } from "../../../src/domain/tasks/Run.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { recordSpans, someSpan, newTelemetryOrg, TOKEN } from "../../support/otlp/telemetry.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { type Answer, send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

/** Serializes spans as text. */
const shownAs = (spans: unknown): string =>
  JSON.stringify(spans, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value))

/** Spans are flushed only by the tests; model servers are on loopback. */
const environment = { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300", COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" }

layer(service({ environment }), { excludeTestServices: true })("Spans", (it) => {
  it.effect(
    "a run and its model calls are spans in the trace of its response, linked to the caller's trace",
    () =>
      Effect.gen(function* () {
        const { admin, key, peer } = yield* newTelemetryOrg("runs")
        const spans = yield* Spans
        const model = yield* startScriptedServer([
          {
            status: 200,
            body: {
              choices: [
                { message: { role: "assistant", content: `{"category":"other"}` }, finish_reason: "stop" }
              ],
              usage: { prompt_tokens: 11, completion_tokens: 3 }
            }
          },
          { status: 400, body: { error: { message: "secret words" } } }
        ])
        const { id: task_id } = yield* admin.tasks.create({
          payload: {
            ...sortingTask,
            provider: { kind: "openai", base_url: `${model.url}/v1`, model: "small" }
          }
        })
        const caller = { trace: "0af7651916cd43dd8448eb211c80319c", span: "b7ad6b7169203331" }
        const run = () =>
          send(`/v1/tasks/${task_id}/run`, {
            key,
            method: "POST",
            headers: { traceparent: `00-${caller.trace}-${caller.span}-01` },
            body: JSON.stringify({ input: { text: "a secret" } })
          })
        const answered = yield* run()
        const failed = yield* run()
        assert.deepStrictEqual([answered.status, failed.status], [200, 502])
        yield* spans.flush
        yield* peer.spansArrived(4)
        assert.deepStrictEqual(peer.faults, [])
        const of = (answer: Answer) =>
          peer.spans().filter(({ traceId }) => traceId === answer.headers.get("x-svc-trace-id"))
        const [root, call, ...others] = of(answered)
        assert.lengthOf(others, 0)
        assert.strictEqual(root?.traceId, answered.body["trace_id"])
        assert.strictEqual(root?.name, "svc.run sort messages")
        assert.deepStrictEqual(root?.links, [{ traceId: caller.trace, spanId: caller.span }])
        assert.strictEqual(root?.attributes["svc.task.id"], task_id)
        assert.strictEqual(call?.name, "chat small")
        assert.strictEqual(call?.kind, 3)
        assert.strictEqual(call?.parentSpanId, root?.spanId)
        assert.deepInclude(call?.attributes, {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "openai",
          "gen_ai.request.model": "small",
          "gen_ai.usage.input_tokens": 11n,
          "gen_ai.usage.output_tokens": 3n
        })
        assert.isAtLeast(call?.startMillis ?? 0, root?.startMillis ?? Infinity)
        const [failure, refused] = of(failed)
        assert.deepStrictEqual(
          [failure?.statusCode, failure?.attributes["error.type"]],
          [2, "provider_failed"]
        )
        assert.deepStrictEqual([refused?.statusCode, refused?.attributes["error.type"]], [2, "400"])
        assert.notInclude(shownAs(peer.spans()), "secret")
      })
  )

  it.effect("content is exported redacted if the organization enabled it", () =>
    Effect.gen(function* () {
      const { admin, params, peer } = yield* newTelemetryOrg("content")
      const spans = yield* Spans
      yield* admin.telemetryDestinations.remove({ params })
      yield* admin.telemetryDestinations.create({
        payload: { url: peer.url, headers: { authorization: `Bearer ${TOKEN}` }, content: true }
      })
      const session = yield* admin.sessions.create({})
      const step = (step_id: string, sent: string) =>
        admin.sessions.step({
          params: { id: session.session_id },
          payload: { step_id: StepId.make(step_id), tool: "mail", action_class: "write", arguments: { sent } }
        })
      yield* step("1", `to Ada, ${TOKEN}`)
      yield* step("2", "x".repeat(100_000))
      yield* spans.flush
      yield* peer.spansArrived(2)
      assert.deepStrictEqual(peer.faults, [])
      assert.deepStrictEqual(
        peer
          .spans()
          .map(({ attributes }) => attributes["svc.step.arguments"])
          .toSorted(),
        [`"[too long to be exported]"`, `{"sent":"to Ada, [REDACTED]"}`]
      )
    })
  )

  it.effect("with content, a model call has its messages and its answer, redacted", () =>
    Effect.gen(function* () {
      const { admin, params, peer } = yield* newTelemetryOrg("messages")
      const spans = yield* Spans
      yield* admin.telemetryDestinations.remove({ params })
      yield* admin.telemetryDestinations.create({
        payload: { url: peer.url, headers: { authorization: `Bearer ${TOKEN}` }, content: true }
      })
      const model = yield* startScriptedServer([
        { status: 503 },
        {
          status: 200,
          body: { choices: [{ message: { role: "assistant", content: `{"category":"other"}` } }] }
        }
      ])
      const { id: task_id } = yield* admin.tasks.create({
        payload: {
          ...sortingTask,
          provider: { kind: "openai", base_url: `${model.url}/v1`, model: "small" }
        }
      })
      yield* admin.tasks.run({ params: { id: task_id }, payload: { input: { text: `to Ada, ${TOKEN}` } } })
      yield* spans.flush
      yield* peer.spansArrived(3)
      assert.deepStrictEqual(peer.faults, [])
      const [first, second, ...others] = peer.spans().filter(({ name }) => name === "chat small")
      assert.lengthOf(others, 0)
      const messagesOf = (attribute: unknown): unknown =>
        typeof attribute === "string" ? JSON.parse(attribute) : assert.fail("messages")
      for (const call of [first, second]) {
        const messages = messagesOf(call?.attributes["gen_ai.input.messages"])
        assert.nestedPropertyVal(messages, "[0].role", "system")
        assert.nestedPropertyVal(messages, "[1].parts[0].content", `{"text":"to Ada, [REDACTED]"}`)
      }
      assert.isUndefined(first?.attributes["gen_ai.output.messages"])
      assert.deepStrictEqual(messagesOf(second?.attributes["gen_ai.output.messages"]), [
        {
          role: "assistant",
          parts: [{ type: "text", content: `{"category":"other"}` }]
        }
      ])
    })
  )

  it.effect(
    "a model call that a client reports with its answer is a span with the messages that are known",
    () =>
      Effect.gen(function* () {
        const { admin, params, peer } = yield* newTelemetryOrg("reported calls")
        const spans = yield* Spans
        yield* admin.telemetryDestinations.remove({ params })
        yield* admin.telemetryDestinations.create({
          payload: { url: peer.url, headers: { authorization: `Bearer ${TOKEN}` }, content: true }
        })
        const { id: task_id } = yield* admin.tasks.create({ payload: { ...sortingTask } })
        const log = (answered_by: typeof ModelCall.Type) =>
          admin.tasks.run({
            params: { id: task_id },
            payload: {
              input: { text: `to Ada, ${TOKEN}` },
              answer: { category: "other" },
              answered_by
            }
          })
        const reported = yield* log({
          provider: "anthropic",
          model: "a-model",
          usage: { input_tokens: 12, output_tokens: 3 },
          duration_ms: 812.5
        })
        const silent = yield* log({ duration_ms: 5 })
        for (const { trace_id } of [reported, silent]) {
          yield* admin.feedback.create({ payload: { inference_log_id: trace_id, score: 1 } })
        }
        const { token, url } = yield* admin.feedback.createToken({
          params: { id: reported.trace_id },
          payload: {}
        })
        yield* send(new URL(url).pathname, {
          method: "POST",
          key: token,
          body: JSON.stringify({ score: -1 })
        })
        yield* spans.flush
        yield* peer.spansArrived(6)
        assert.deepStrictEqual(peer.faults, [])
        const of = ({ trace_id }: { readonly trace_id: string }) => {
          const found = peer.spans().filter(({ traceId }) => traceId === trace_id)
          const named = (name: string) => found.filter((span) => span.name === name)
          const [run] = named("svc.run sort messages")
          return { run, calls: found.filter(({ kind }) => kind === 3), feedback: named("svc.feedback") }
        }
        const { calls, feedback, run } = of(reported)
        const [call, ...others] = calls
        assert.lengthOf(others, 0)
        assert.strictEqual(call?.name, "chat a-model")
        assert.strictEqual(call?.parentSpanId, run?.spanId)
        assert.deepInclude(call?.attributes, {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "anthropic",
          "gen_ai.request.model": "a-model",
          "gen_ai.usage.input_tokens": 12n,
          "gen_ai.usage.output_tokens": 3n,
          "gen_ai.input.messages": JSON.stringify([
            { role: "user", parts: [{ type: "text", content: `{"text":"to Ada, [REDACTED]"}` }] }
          ]),
          "gen_ai.output.messages": JSON.stringify([
            {
              role: "assistant",
              parts: [{ type: "text", content: `{"category":"other"}` }]
            }
          ])
        })
        assert.strictEqual(run?.startMillis, call?.startMillis)
        assert.deepStrictEqual(
          feedback.map(({ parentSpanId }) => parentSpanId),
          [call?.spanId, call?.spanId]
        )
        const unknown = of(silent)
        assert.lengthOf(unknown.calls, 0)
        assert.strictEqual(unknown.feedback[0]?.parentSpanId, unknown.run?.spanId)
      })
  )

  it.effect("spans are exported without content if the organization's own secrets cannot be decrypted", () =>
    Effect.gen(function* () {
      const { admin, key, org_id, params, peer } = yield* newTelemetryOrg("unreadable")
      const other = yield* newTelemetryOrg("readable")
      const sql = yield* SqlClient.SqlClient
      const spans = yield* Spans
      yield* admin.telemetryDestinations.remove({ params })
      yield* admin.telemetryDestinations.create({ payload: { url: peer.url, content: true } })
      const { id: task_id } = yield* admin.tasks.create({ payload: { ...sortingTask } })
      yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/a" } })
      // As if the master key that sealed it had been removed.
      yield* sql`UPDATE notification_endpoints SET secret = set_byte(secret, 3, 255) WHERE org_id = ${org_id}`
      const run = yield* send(`/v1/tasks/${task_id}/run`, {
        key,
        method: "POST",
        body: JSON.stringify({ input: { text: "words" }, answer: { category: "other" } })
      })
      assert.strictEqual(run.status, 200)
      yield* recordSpans(other.org_id, 1)
      yield* spans.flush
      yield* Effect.all([peer.arrived(1), other.peer.arrived(1)])
      assert.strictEqual(peer.spans()[0]?.traceId, run.body["trace_id"])
      assert.notInclude(shownAs(peer.spans()), "words")
      assert.lengthOf(other.peer.spans(), 1)
    })
  )

  it.effect("encoding yields to the event loop between spans that take long to build", () =>
    Effect.gen(function* () {
      const { org_id } = yield* newTelemetryOrg("long")
      const spans = yield* Spans
      let tick = 0
      const next = () => {
        tick++
        immediate = setImmediate(next)
      }
      let immediate = setImmediate(next)
      yield* Effect.addFinalizer(() => Effect.sync(() => clearImmediate(immediate)))
      const made: Array<number> = []
      const longSpan = (trace_id: TraceId) => {
        made.push(tick)
        for (const until = performance.now() + 3; performance.now() < until;);
        return [someSpan(trace_id)]
      }
      for (let count = 0; count < 50; count++) {
        const trace_id = yield* generateTraceId
        yield* spans.record(org_id, { trace_id, count: 1, make: () => longSpan(trace_id) })
      }
      yield* spans.flush
      assert.lengthOf(made, 50)
      assert.strictEqual(new Set(made).size, 50, "one tick of the event loop built several spans")
    }).pipe(Effect.scoped)
  )

  it.effect("a session's steps, outcomes and approvals are spans in its trace", () =>
    Effect.gen(function* () {
      const { admin, peer } = yield* newTelemetryOrg("steps")
      const spans = yield* Spans
      yield* admin.approvalRules.replace({
        payload: { rules: [{ tool: "search", action_class: "*", effect: "allow" }] }
      })
      const session = yield* admin.sessions.create({})
      const params = { id: session.session_id }
      const step = (step_id: string, tool: string) =>
        admin.sessions.step({
          params,
          payload: { step_id: StepId.make(step_id), tool, action_class: "read", arguments: { q: "secret" } }
        })
      yield* step("1", "search")
      yield* admin.sessions.reportOutcome({
        params: { ...params, step_id: StepId.make("1") },
        payload: { status: "failed", error: "no such index", result: { found: "secret" } }
      })
      const asked = yield* step("2", "refund")
      yield* admin.sessions.close({ params })
      yield* spans.flush
      yield* peer.spansArrived(4)
      assert.deepStrictEqual(peer.faults, [])
      const seen = peer.spans()
      assert.deepStrictEqual(seen.map(({ name }) => name).toSorted(), [
        "execute_tool search",
        "svc.approval refund",
        "svc.step refund",
        "svc.step search"
      ])
      for (const span of seen) {
        assert.strictEqual(span.traceId, session.trace_id)
        assert.strictEqual(span.traceState, "ot=th:0")
        assert.strictEqual(span.attributes["gen_ai.conversation.id"], session.session_id)
        assert.strictEqual(span.resource["service.name"], "countersign")
      }
      const named = (name: string) => seen.find((span) => span.name === name) ?? assert.fail(name)
      const search = named("svc.step search")
      const tool = named("execute_tool search")
      assert.strictEqual(tool.parentSpanId, search.spanId)
      assert.strictEqual(tool.attributes["error.type"], "tool_failed")
      assert.strictEqual(tool.statusCode, 2)
      assert.strictEqual(search.attributes["svc.step.decision"], "allow")
      const approval = named("svc.approval refund")
      assert.strictEqual(approval.parentSpanId, named("svc.step refund").spanId)
      assert.strictEqual(approval.attributes["svc.approval.id"], asked.approval_id)
      assert.strictEqual(approval.attributes["svc.approval.status"], "expired")
      assert.strictEqual(approval.attributes["svc.approval.decision_source"], "session_closed")
      assert.notInclude(shownAs(seen), "secret")
    })
  )

  it.effect("feedback on a run is a span below the run, without the correction", () =>
    Effect.gen(function* () {
      const { admin, peer } = yield* newTelemetryOrg("feedback")
      const spans = yield* Spans
      const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
      const run = yield* admin.tasks.run({
        params: { id: task_id },
        payload: { input: { text: "a secret" }, answer: { category: "other" } }
      })
      const { id } = yield* admin.feedback.create({
        payload: { inference_log_id: run.trace_id, score: -1, correction: { category: "billing" } }
      })
      yield* spans.flush
      yield* peer.spansArrived(2)
      assert.deepStrictEqual(peer.faults, [])
      const seen = peer.spans()
      assert.deepStrictEqual(
        seen.map(({ traceId }) => traceId),
        [run.trace_id, run.trace_id]
      )
      const root = seen.find(({ name }) => name === "svc.run sort messages")
      const given = seen.find(({ name }) => name === "svc.feedback")
      assert.strictEqual(given?.parentSpanId, root?.spanId)
      assert.deepInclude(given?.attributes, {
        "svc.feedback.id": id,
        "svc.feedback.score": -1n,
        "svc.feedback.has_correction": true,
        "svc.task.id": task_id,
        "gen_ai.evaluation.name": "human_feedback",
        "gen_ai.evaluation.score.value": -1,
        "gen_ai.evaluation.score.label": "incorrect"
      })
      assert.deepStrictEqual(given?.events, [])
      assert.notInclude(shownAs(seen), "billing")
    })
  )

  it.effect("approval spans name the person who decided, or the timeout", () =>
    Effect.gen(function* () {
      const { admin, peer } = yield* newTelemetryOrg("decided")
      const spans = yield* Spans
      const sql = yield* SqlClient.SqlClient
      const { runOnce } = yield* Deadlines
      const reviewer = yield* Effect.flatMap(Countersign, (countersign) =>
        countersign.client({ preset: "reviewer", name: "Ada" }, "decided")
      )
      const session = yield* admin.sessions.create({})
      const ask = (tool: string) =>
        Effect.map(
          admin.sessions.step({
            params: { id: session.session_id },
            payload: { step_id: StepId.make(tool), tool, action_class: "write", arguments: { sent: tool } }
          }),
          ({ approval_id }) => approval_id ?? assert.fail("the step waits for a person")
        )
      const approved = yield* ask("refund")
      const decision = yield* reviewer.approvals.decide({
        params: { id: approved },
        payload: { decision: "approve" }
      })
      const late = yield* ask("mail")
      yield* sql`
        UPDATE approvals
        SET
          review_deadline_at = review_deadline_at - interval '1 day',
          expires_at = expires_at - interval '1 day',
          next_due_at = next_due_at - interval '1 day'
        WHERE approval_id = ${late}
      `
      yield* runOnce
      yield* spans.flush
      yield* peer.spansArrived(4)
      assert.deepStrictEqual(peer.faults, [])
      const seen = peer.spans()
      const named = (name: string) => seen.find((span) => span.name === name) ?? assert.fail(name)
      for (const [tool, id, status, outcome, source, by] of [
        ["refund", approved, "approved", "allow", "human", decision.decided_by?.id],
        ["mail", late, "expired", "reject", "timeout", undefined]
      ] as const) {
        const { attributes, parentSpanId, traceId } = named(`svc.approval ${tool}`)
        assert.strictEqual(traceId, session.trace_id)
        assert.strictEqual(parentSpanId, named(`svc.step ${tool}`).spanId)
        assert.deepInclude(attributes, {
          "svc.approval.id": id,
          "svc.approval.status": status,
          "svc.approval.outcome": outcome,
          "svc.approval.decision_source": source
        })
        assert.strictEqual(attributes["svc.approval.decided_by"], by)
      }
    })
  )
})
