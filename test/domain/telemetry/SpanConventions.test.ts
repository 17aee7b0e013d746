import * as published from "@opentelemetry/semantic-conventions/incubating"
import { assert, describe, it } from "@effect/vitest"
import { SessionId, StepId, TaskId, TraceId, ReleaseId } from "../../../src/domain/Ids.ts"
import {
  feedbackSpan,
  outcomeSpan,
  runSpans,
  stepSpan,
  testSpan
} from "../../../src/domain/telemetry/SpanConventions.ts"

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
  calls: [
    {
      provider: "openai",
      model: "small",
      start: 1,
      end: 2,
      input_tokens: 1,
      output_tokens: 1,
      error_type: "400"
    }
  ],
  input: { text: "x".repeat(100_000) },
  answer: undefined
}
const spans = [
  ...runSpans(run),
  stepSpan({ ...step, decision: "allow", rule_id: null, approval_id: null, arguments: { q: 1 } }),
  outcomeSpan({ ...step, status: "failed", result: 1 }),
  feedbackSpan({
    trace_id,
    feedback_id: `fbk_${id}`,
    task_id: step.task_id,
    score: -1,
    has_correction: false,
    at: 1
  }),
  testSpan(trace_id, 1)
]

describe("SpanConventions", () => {
  it("uses the published names of the conventions, and svc for its own", () => {
    const known = new Set<string>(Object.values(published).filter((value) => typeof value === "string"))
    const names = spans.flatMap(({ attributes, events = [] }) => [
      ...Object.keys(attributes),
      ...events.flatMap((event) => [event.name, ...Object.keys(event.attributes)])
    ])
    assert.isAbove(names.length, 20)
    for (const name of names) assert.isTrue(name.startsWith("svc.") || known.has(name), name)
  })

  it("gives each span of a trace a distinct id, and parents outcomes, calls and feedback correctly", () => {
    const [root, call, asked, outcome, feedback] = spans
    assert.strictEqual(new Set(spans.slice(0, 5).map(({ span_id }) => span_id)).size, 5)
    assert.strictEqual(call?.parent_span_id, root?.span_id)
    assert.strictEqual(feedback?.parent_span_id, root?.span_id)
    assert.strictEqual(outcome?.parent_span_id, asked?.span_id)
  })

  it("truncates long content and marks it", () => {
    const [root] = spans
    const text = root?.attributes["gen_ai.input.messages"]
    assert.lengthOf(typeof text === "string" ? text : "", 32 * 1024)
    assert.strictEqual(root?.attributes["svc.content.truncated"], true)
  })
})
