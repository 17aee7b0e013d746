import * as published from "@opentelemetry/semantic-conventions/incubating"
import { assert, describe, it } from "@effect/vitest"
import {
  ComparisonId,
  ExampleId,
  GrantId,
  OrgId,
  SessionId,
  StepId,
  TaskId,
  TraceId,
  ReleaseId
} from "../../../src/domain/Ids.ts"
import { comparisonSpans } from "../../../src/domain/telemetry/ComparisonConventions.ts"
import {
  encodeScore,
  feedbackSpan,
  scoreEnvelope,
  scoresUrl
} from "../../../src/domain/telemetry/FeedbackConventions.ts"
import { SpanId } from "../../../src/domain/telemetry/Span.ts"
import {
  inputMessages,
  outcomeSpan,
  runSpans,
  stepSpan,
  testSpan
} from "../../../src/domain/telemetry/SpanConventions.ts"
import type { ScoreFormat } from "../../../src/domain/telemetry/TelemetryDestination.ts"
import { withToolAttributes } from "../../../src/domain/telemetry/toolAttributes.ts"

const id = "0192f0c1a2b37c4d8e5f60718293a4b5"
const trace_id = TraceId.make(id)
const step = {
  trace_id,
  session_id: SessionId.make(`ses_${id}`),
  step_id: StepId.make("1"),
  task_id: TaskId.make(`tsk_${id}`),
  tool: "search",
  action_class: "read",
  arguments_digest: "0123456789abcdef123456789abcdef023456789abcdef013456789abcdef012",
  start: 1,
  end: 2
}
const modelCall = {
  provider: "openai",
  model: "small",
  server: { address: "api.openai.com", port: 443 },
  temperature: 0,
  top_p: 1,
  max_tokens: 100,
  seed: 7,
  start: 1,
  end: 2,
  response: {
    id: "chatcmpl-1",
    model: "small-2026",
    finish_reason: "stop",
    input_tokens: 11,
    output_tokens: 3,
    cached_tokens: 8,
    cache_creation_tokens: 2,
    reasoning_tokens: 1
  },
  error_type: "400",
  prompt: [{ role: "user", content: "{}" }]
}
const run = {
  trace_id,
  task_id: step.task_id,
  task_name: "sort",
  release_id: ReleaseId.make(`rel_${id}`),
  dataset_id: null,
  source: "provider" as const,
  session_id: step.session_id,
  start: 1,
  end: 2,
  error_type: "provider_failed",
  caller: null,
  calls: [modelCall],
  input: { text: "x".repeat(100_000) },
  answer: undefined
}
const feedback = {
  trace_id,
  caller: null,
  provider_calls: 0,
  feedback_id: `fbk_${id}`,
  task_id: step.task_id,
  score: -1,
  score_value: null,
  score_label: null,
  source: "feedback_token",
  end_user: "eu_1",
  has_comment: true,
  has_correction: false,
  author: `key_${id}`,
  withdrawn: false,
  at: 1
} as const
const caller = {
  trace_id: TraceId.make("0af7651916cd43dd8448eb211c80319c"),
  span_id: SpanId.make("b7ad6b7169203331"),
  flags: 0b01
}
const spans = [
  ...runSpans(run, "own"),
  stepSpan({
    ...step,
    decision: "allow",
    decision_source: "grant",
    rule_id: null,
    approval_id: null,
    grant_id: GrantId.make(`grt_${id}`),
    arguments: { q: 1 }
  }),
  outcomeSpan({ ...step, status: "failed", result: 1, attempt: 1 }),
  feedbackSpan(feedback, { trace: "own", scores: "span" }),
  testSpan(trace_id, 1),
  ...comparisonSpans({
    trace_id,
    task_id: step.task_id,
    comparison_id: ComparisonId.make(`cmp_${id}`),
    example_id: ExampleId.make(`exm_${id}`),
    calls: [{ ...modelCall, side: "live", role: "judge" }]
  })
]

describe("SpanConventions", () => {
  it("uses the published names of the conventions, and svc for its own", () => {
    const known = new Set<string>(Object.values(published).filter((value) => typeof value === "string"))
    const names = spans.flatMap(({ attributes, events = [] }) => [
      ...Object.keys(attributes),
      ...events.flatMap((event) => [event.name, ...Object.keys(event.attributes)])
    ])
    assert.isAbove(names.length, 20)
    // The published constants do not have the conventions' latest names yet.
    known.add("gen_ai.usage.cache_write.input_tokens")
    for (const name of names) assert.isTrue(name.startsWith("svc.") || known.has(name), name)
  })

  it("only calls to a model have messages, and only executions have attributes of tools", () => {
    for (const { attributes, name } of spans) {
      for (const key of Object.keys(attributes)) {
        if (key.startsWith("gen_ai.tool.")) assert.match(name, /^execute_tool /, key)
        if (key.endsWith(".messages")) assert.match(name, /^chat/, key)
      }
    }
    const [root, , asked, outcome] = spans
    assert.isString(root?.attributes["svc.run.input"])
    assert.strictEqual(asked?.attributes["svc.tool.name"], outcome?.attributes["gen_ai.tool.name"])
    assert.isString(asked?.attributes["svc.step.arguments"])
  })

  it("every call to a model has a provider, also one whose client named none", () => {
    const [reported] = run.calls
    const [, call] = runSpans(
      { ...run, calls: reported === undefined ? [] : [{ ...reported, provider: null }] },
      "own"
    )
    assert.strictEqual(call?.attributes["gen_ai.provider.name"], "unknown")
  })

  it("a span has the kind, the input and the output in the names of the tool", () => {
    const kindsOf = (scores: ScoreFormat) =>
      Object.fromEntries(
        spans.map((span) => [
          span.name.split(" ", 1)[0],
          withToolAttributes(span, scores).attributes["openinference.span.kind"]
        ])
      )
    assert.deepStrictEqual(kindsOf("phoenix"), {
      "svc.run": "CHAIN",
      chat: undefined,
      "svc.step": "GUARDRAIL",
      execute_tool: undefined,
      "svc.feedback": "EVALUATOR",
      "svc.test": undefined,
      "svc.comparison": "CHAIN"
    })
    assert.isTrue(Object.values(kindsOf("span")).every((kind) => kind === undefined))
    const [root] = runSpans({ ...run, error_type: null, input: { a: 1 }, answer: { b: 2 } }, "own")
    for (const [scores, input, output] of [
      ["phoenix", "input.value", "output.value"],
      ["langfuse", "langfuse.observation.input", "langfuse.observation.output"],
      ["braintrust", "braintrust.input_json", "braintrust.output_json"]
    ] as const) {
      assert.deepInclude(root && withToolAttributes(root, scores).attributes, {
        [input]: `{"a":1}`,
        [output]: `{"b":2}`
      })
    }
  })

  it("gives each span of a trace a distinct id, and parents outcomes, calls and feedback correctly", () => {
    const [root, call, asked, outcome, feedback] = spans
    assert.strictEqual(new Set(spans.slice(0, 5).map(({ span_id }) => span_id)).size, 5)
    assert.strictEqual(call?.parent_span_id, root?.span_id)
    assert.strictEqual(feedback?.parent_span_id, root?.span_id)
    assert.strictEqual(outcome?.parent_span_id, asked?.span_id)
  })

  it("exports the value and the label of feedback as the evaluation", () => {
    const rated = feedbackSpan(
      { ...feedback, score_value: -0.75, score_label: "too long" },
      { trace: "own", scores: "span" }
    )
    assert.deepInclude(rated.attributes, {
      "gen_ai.evaluation.score.value": { double: -0.75 },
      "gen_ai.evaluation.score.label": "too long"
    })
  })

  it("cuts long messages, so that they stay JSON, and marks them", () => {
    const [completed] = run.calls
    const prompt = inputMessages("long ".repeat(100_000))
    const [, call] = runSpans(
      { ...run, calls: completed === undefined ? [] : [{ ...completed, prompt }] },
      "own"
    )
    const text = call?.attributes["gen_ai.input.messages"]
    const json = typeof text === "string" ? text : ""
    assert.isAtMost(json.length, 32 * 1024)
    assert.isAbove(json.length, 8 * 1024)
    assert.strictEqual(JSON.parse(json)[0].parts[0].content.at(-1), "…")
    assert.strictEqual(call?.attributes["svc.content.truncated"], true)
    // Other content is one text, which is cut at its end.
    const [root] = spans
    const input = root?.attributes["svc.run.input"]
    assert.strictEqual(typeof input === "string" ? input.length : input, 32 * 1024)
    assert.strictEqual(root?.attributes["svc.content.truncated"], true)
  })

  it("a model call has its server, its parameters, what the response says of itself and its messages", () => {
    const [, call] = runSpans({ ...run, error_type: null, answer: { category: "other" } }, "own")
    assert.deepInclude(call?.attributes, {
      "gen_ai.operation.name": "chat",
      "gen_ai.request.temperature": { double: 0 },
      "gen_ai.request.top_p": { double: 1 },
      "gen_ai.request.max_tokens": 100,
      "gen_ai.request.seed": 7,
      "server.address": "api.openai.com",
      "server.port": 443,
      "gen_ai.response.id": "chatcmpl-1",
      "gen_ai.response.model": "small-2026",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 11,
      "gen_ai.usage.output_tokens": 3,
      "gen_ai.usage.cache_read.input_tokens": 8,
      "gen_ai.usage.cache_write.input_tokens": 2,
      "gen_ai.usage.reasoning.output_tokens": 1,
      "gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"{}"}]}]`,
      "gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"{\\"category\\":\\"other\\"}"}]}]`
    })
  })

  it("a call without a readable response has no counts, and no content unless that is exported", () => {
    const [call] = run.calls
    assert.isDefined(call)
    const silent = { ...run, answer: undefined, input: undefined }
    const [, span] = runSpans({ ...silent, calls: [{ ...call, response: null, prompt: undefined }] }, "own")
    const sent = Object.entries(span?.attributes ?? {}).filter(([, value]) => value !== undefined)
    for (const [name] of sent) assert.notMatch(name, /usage|response|messages/)
  })

  it("a destination that joins traces gets a run, its calls and its feedback in the caller's trace", () => {
    const joined = { ...run, caller }
    const [root, call] = runSpans(joined, "join")
    const given = feedbackSpan({ ...feedback, caller }, { trace: "join", scores: "span" })
    for (const span of [root, call, given]) assert.strictEqual(span?.trace_id, caller.trace_id)
    assert.deepStrictEqual([root?.parent_span_id, root?.links], [caller.span_id, undefined])
    assert.deepStrictEqual(root?.joined, { flags: 1, isParentRemote: true })
    assert.deepStrictEqual([call?.parent_span_id, given.parent_span_id], [root?.span_id, root?.span_id])
    assert.strictEqual(root?.attributes["svc.run.trace_id"], trace_id)
    const [own] = runSpans(joined, "own")
    assert.deepStrictEqual([own?.trace_id, own?.parent_span_id, own?.links], [trace_id, null, [caller]])
    assert.strictEqual(runSpans(run, "join")[0]?.trace_id, trace_id)
  })

  it("feedback evaluates the model's last call, and the run if it called none", () => {
    const [root, call] = spans
    const parentOf = (provider_calls: number) =>
      feedbackSpan({ ...feedback, provider_calls }, { trace: "own", scores: "span" }).parent_span_id
    assert.deepStrictEqual([parentOf(0), parentOf(1)], [root?.span_id, call?.span_id])
  })

  it("Braintrust gets a score from 0 to 1 in a span of type score", () => {
    const scoreOf = (score: number) =>
      feedbackSpan({ ...feedback, score }, { trace: "own", scores: "braintrust" }).attributes
    assert.deepInclude(scoreOf(-1), { "braintrust.scores": `{"human_feedback":0}` })
    assert.deepInclude(scoreOf(0), { "braintrust.scores": `{"human_feedback":0.5}` })
    assert.deepInclude(scoreOf(1), {
      "braintrust.scores": `{"human_feedback":1}`,
      "braintrust.span_attributes": `{"name":"human_feedback","type":"score"}`
    })
  })

  it("scores that are sent apart have the forms of the tools' APIs", () => {
    const org_id = OrgId.make(`org_${id}`)
    const sent = (format: "log" | "langfuse" | "phoenix", mode: "own" | "join" = "own") => {
      const [before, after] = scoreEnvelope(org_id, format)
      return JSON.parse(before + encodeScore({ ...feedback, caller }, format, mode) + after)
    }
    assert.deepStrictEqual(sent("langfuse"), {
      batch: [
        {
          id: feedback.feedback_id,
          timestamp: "1970-01-01T00:00:00.001Z",
          type: "score-create",
          body: {
            id: `${trace_id}.key_${id}`,
            traceId: trace_id,
            name: "human_feedback",
            value: -1,
            dataType: "NUMERIC",
            metadata: { task_id: feedback.task_id, label: "incorrect" }
          }
        }
      ]
    })
    assert.deepInclude(sent("langfuse", "join").batch[0].body, {
      traceId: caller.trace_id,
      observationId: trace_id.slice(0, 16)
    })
    assert.deepStrictEqual(sent("phoenix"), {
      data: [
        {
          span_id: trace_id.slice(0, 16),
          name: "human_feedback",
          annotator_kind: "HUMAN",
          result: { label: "incorrect", score: -1 },
          metadata: { feedback_id: feedback.feedback_id, task_id: feedback.task_id },
          identifier: `${trace_id}.key_${id}`
        }
      ]
    })
    const [{ schemaUrl, scopeLogs }] = sent("log").resourceLogs
    assert.strictEqual(schemaUrl, "https://opentelemetry.io/schemas/gen-ai/0.1.0")
    assert.deepInclude(scopeLogs[0].logRecords[0], {
      timeUnixNano: "1000000",
      eventName: "gen_ai.evaluation.result",
      traceId: trace_id,
      spanId: trace_id.slice(0, 16)
    })
  })

  it("a withdrawn opinion has the score's id, a label and no value", () => {
    const withdrawn = { ...feedback, withdrawn: true }
    const sent = (format: "log" | "langfuse" | "phoenix") => JSON.parse(encodeScore(withdrawn, format, "own"))
    assert.deepInclude(sent("langfuse"), { id: `${feedback.feedback_id}.withdrawn` })
    assert.deepInclude(sent("langfuse").body, {
      id: `${trace_id}.key_${id}`,
      value: "withdrawn",
      dataType: "CATEGORICAL"
    })
    assert.deepInclude(sent("phoenix"), {
      result: { label: "withdrawn" },
      identifier: `${trace_id}.key_${id}`
    })
    assert.notInclude(JSON.stringify(sent("log")), "score.value")
    const format = { trace: "own", scores: "braintrust" } as const
    const [given, taken] = [feedbackSpan(feedback, format), feedbackSpan(withdrawn, format)]
    assert.notStrictEqual(given.span_id, taken.span_id)
    assert.strictEqual(given.attributes["svc.feedback.score_id"], taken.attributes["svc.feedback.score_id"])
    assert.strictEqual(taken.attributes["gen_ai.evaluation.score.label"], "withdrawn")
    assert.isUndefined(taken.attributes["gen_ai.evaluation.score.value"])
    assert.isUndefined(taken.attributes["braintrust.scores"])
  })

  it("scores go to the address beside that of traces", () => {
    const langfuse = "https://cloud.langfuse.com/api/public/otel/v1/traces"
    assert.strictEqual(scoresUrl(langfuse, "langfuse"), "https://cloud.langfuse.com/api/public/ingestion")
    assert.strictEqual(
      scoresUrl("https://app.phoenix.arize.com/s/a/v1/traces", "phoenix"),
      "https://app.phoenix.arize.com/s/a/v1/span_annotations"
    )
    assert.strictEqual(
      scoresUrl("https://a.example/v1/traces?team=1?&to=2", "log"),
      "https://a.example/v1/logs?team=1?&to=2"
    )
    assert.isUndefined(scoresUrl("https://a.example/v1/traces", "langfuse"))
    assert.isUndefined(scoresUrl("https://a.example/private", "log"))
    assert.isUndefined(scoresUrl("https://a.example/?to=/v1/traces", "log"))
  })
})
