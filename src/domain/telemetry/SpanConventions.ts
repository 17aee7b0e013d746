/**
 * The spans that the service exports, and all names in them.
 *
 * `gen_ai.*`: OpenTelemetry's semantic conventions for generative AI as of 1.45.0 (`open-telemetry/semantic-conventions-genai`:
 * gen-ai-spans.md, gen-ai-agent-spans.md, gen-ai-events.md; status Development). They make the inputs and outputs of models and the
 * arguments and results of tools opt-in. Attributes without a convention are named `svc.*`.
 */
import type { Schema } from "effect"
import type { OutcomeStatus, StepDecision } from "../approvals/AgentSession.ts"
import type { Approval } from "../approvals/Approval.ts"
import type {
  ApprovalId,
  DatasetId,
  OrgId,
  ReleaseId,
  RuleId,
  SessionId,
  StepId,
  TaskId,
  TraceId
} from "../Ids.ts"
import type { ExportSource } from "./OtlpJson.ts"
import { type Attributes, type Span, type SpanId, spanIdOf, type SpanLink } from "./Span.ts"
import { VERSION } from "../Version.ts"

/** The conventions that `schemaUrl` names. */
const SCHEMA_URL = "https://opentelemetry.io/schemas/1.45.0"

/** Maximum characters of an exported input, answer, arguments or result; a longer one is truncated and marked so. */
export const MAX_CONTENT_CHARACTERS = 32 * 1024

/** The export source of one organization: the service. */
export const exportSource = (org_id: OrgId): ExportSource => ({
  resource: { "service.name": "countersign", "service.version": VERSION, "svc.org.id": org_id },
  scope: { name: "countersign", version: VERSION },
  schemaUrl: SCHEMA_URL
})

/** Content, already redacted: present only if the organization opted in. */
const content = (name: string, text: string | undefined): Attributes =>
  text === undefined
    ? {}
    : text.length <= MAX_CONTENT_CHARACTERS
      ? { [name]: text }
      : { [name]: text.slice(0, MAX_CONTENT_CHARACTERS), "svc.content.truncated": true }

const json = (value: Schema.Json | undefined): string | undefined =>
  value === undefined ? undefined : JSON.stringify(value)

/** A chat of one message, in the format of `gen_ai.input.messages` and `gen_ai.output.messages`. */
const message = (role: "user" | "assistant", value: Schema.Json | undefined): string | undefined =>
  value === undefined
    ? undefined
    : JSON.stringify([{ role, parts: [{ type: "text", content: JSON.stringify(value) }] }])

/** A completed call to a model provider within a run. */
export interface CompletedProviderCall {
  /** The provider's name in the conventions, such as `openai`. */
  readonly provider: string
  readonly model: string | null
  readonly start: number
  readonly end: number
  readonly input_tokens: number | null
  readonly output_tokens: number | null
  /** A low-cardinality error name; null if the call succeeded. */
  readonly error_type: string | null
}

/** A completed run of a task. */
export interface CompletedRun {
  readonly trace_id: TraceId
  readonly task_id: TaskId
  readonly task_name: string
  readonly release_id: ReleaseId
  readonly dataset_id: DatasetId | null
  /** Whether the service called a provider, or the client logged the answer. */
  readonly source: "provider" | "logged"
  readonly session_id: SessionId | null
  readonly start: number
  readonly end: number
  readonly error_type: string | null
  /** The caller's span, from its `traceparent`. */
  readonly caller: SpanLink | null
  readonly calls: ReadonlyArray<CompletedProviderCall>
  readonly input: Schema.Json | undefined
  readonly answer: Schema.Json | undefined
}

/** The root span's id: the trace id is random, so its first half is too. */
const runSpanId = (trace_id: TraceId): SpanId => spanIdOf(trace_id.slice(0, 16))

/** The span id of a provider call: the run's, incremented by the call's number. */
const callSpanId = (trace_id: TraceId, index: number): SpanId =>
  spanIdOf(
    BigInt.asUintN(64, BigInt(`0x${trace_id.slice(0, 16)}`) + BigInt(index + 1))
      .toString(16)
      .padStart(16, "0")
  )

/** Returns the span of a run and one for each provider call in it. */
export const runSpans = (run: CompletedRun): ReadonlyArray<Span> => {
  const { trace_id } = run
  const shared: Attributes = {
    "gen_ai.conversation.id": run.session_id ?? undefined,
    "svc.task.id": run.task_id,
    "svc.release.id": run.release_id
  }
  const calls = run.calls.map((call, index): Span => ({
    trace_id,
    span_id: callSpanId(trace_id, index),
    parent_span_id: runSpanId(trace_id),
    name: call.model === null ? "chat" : `chat ${call.model}`,
    kind: "client",
    start: call.start,
    end: call.end,
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": call.provider,
      "gen_ai.request.model": call.model ?? undefined,
      "gen_ai.output.type": "json",
      "gen_ai.usage.input_tokens": call.input_tokens ?? undefined,
      "gen_ai.usage.output_tokens": call.output_tokens ?? undefined,
      ...shared,
      "error.type": call.error_type ?? undefined
    },
    failed: call.error_type !== null
  }))
  return [
    {
      trace_id,
      span_id: runSpanId(trace_id),
      parent_span_id: null,
      name: `invoke_workflow ${run.task_name}`,
      kind: "internal",
      start: run.start,
      end: run.end,
      attributes: {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": run.task_name,
        ...shared,
        "svc.dataset.id": run.dataset_id ?? undefined,
        "svc.run.source": run.source,
        "error.type": run.error_type ?? undefined,
        ...content("gen_ai.input.messages", message("user", run.input)),
        ...content("gen_ai.output.messages", message("assistant", run.answer))
      },
      ...(run.caller === null ? {} : { links: [run.caller] }),
      failed: run.error_type !== null
    },
    ...calls
  ]
}

/** The identity of a governed step. The digest binds session, step, tool and arguments, so parts of it serve as span ids. */
interface StepIdentity {
  readonly trace_id: TraceId
  readonly session_id: SessionId
  readonly step_id: StepId
  readonly task_id: TaskId | null
  readonly tool: string
  readonly action_class: string
  readonly arguments_digest: string
}

const stepSpanId = ({ arguments_digest }: Pick<StepIdentity, "arguments_digest">): SpanId =>
  spanIdOf(arguments_digest.slice(0, 16))

const aboutStep = (step: StepIdentity): Attributes => ({
  "gen_ai.conversation.id": step.session_id,
  "gen_ai.tool.name": step.tool,
  "svc.step.id": step.step_id,
  "svc.step.action_class": step.action_class,
  "svc.task.id": step.task_id ?? undefined
})

/** Returns the span of a governed step's decision. */
export const stepSpan = (
  step: StepIdentity & {
    readonly decision: StepDecision
    readonly rule_id: RuleId | null
    readonly approval_id: ApprovalId | null
    readonly start: number
    readonly end: number
    readonly arguments: Schema.Json | undefined
  }
): Span => ({
  trace_id: step.trace_id,
  span_id: stepSpanId(step),
  parent_span_id: null,
  name: `svc.step ${step.tool}`,
  kind: "internal",
  start: step.start,
  end: step.end,
  attributes: {
    ...aboutStep(step),
    "svc.step.decision": step.decision,
    "svc.step.rule_id": step.rule_id ?? undefined,
    "svc.step.arguments_digest": step.arguments_digest,
    "svc.approval.id": step.approval_id ?? undefined,
    ...content("gen_ai.tool.call.arguments", json(step.arguments))
  }
})

/** Returns the span of an allowed step's execution: from the decision to the reported outcome. */
export const outcomeSpan = (
  step: StepIdentity & {
    readonly status: OutcomeStatus
    readonly start: number
    readonly end: number
    readonly result: Schema.Json | undefined
  }
): Span => ({
  trace_id: step.trace_id,
  span_id: spanIdOf(step.arguments_digest.slice(16, 32)),
  parent_span_id: stepSpanId(step),
  name: `execute_tool ${step.tool}`,
  kind: "internal",
  start: step.start,
  end: step.end,
  attributes: {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.call.id": step.step_id,
    ...aboutStep(step),
    "svc.outcome.status": step.status,
    "error.type": step.status === "failed" ? "tool_failed" : undefined,
    ...content("gen_ai.tool.call.result", json(step.result))
  },
  failed: step.status === "failed"
})

/** Returns the span of a closed approval, from request to closing, whether a person decided or not. */
export const approvalSpan = (
  trace_id: TraceId,
  approval: Omit<Approval, "arguments">,
  closedAt: number
): Span => ({
  trace_id,
  span_id: spanIdOf(approval.arguments_digest.slice(32, 48)),
  parent_span_id: stepSpanId(approval),
  name: `svc.approval ${approval.tool}`,
  kind: "internal",
  start: approval.requested_at.epochMilliseconds,
  end: closedAt,
  attributes: {
    ...aboutStep({ ...approval, trace_id }),
    "svc.approval.id": approval.approval_id,
    "svc.approval.status": approval.status,
    "svc.approval.stage": approval.stage,
    "svc.approval.outcome": approval.outcome ?? undefined,
    "svc.approval.decision_source": approval.decision_source ?? undefined,
    "svc.approval.decided_by": approval.decided_by?.id,
    "svc.approval.escalated": approval.escalated_at !== null
  }
})

/** The score of a run's answer. */
interface SubmittedFeedback {
  /** The run's trace id. */
  readonly trace_id: TraceId
  readonly feedback_id: string
  readonly task_id: TaskId
  readonly score: 1 | 0 | -1
  readonly has_correction: boolean
  readonly at: number
}

const labels = { "1": "correct", "0": "neutral", "-1": "incorrect" } as const

/** Returns the span of feedback, in the trace of its run, with the score as the conventions' evaluation event. */
export const feedbackSpan = (feedback: SubmittedFeedback): Span => ({
  trace_id: feedback.trace_id,
  // The last 16 digits of an id are random.
  span_id: spanIdOf(feedback.feedback_id.slice(-16)),
  parent_span_id: runSpanId(feedback.trace_id),
  name: "svc.feedback",
  kind: "internal",
  start: feedback.at,
  end: feedback.at,
  attributes: {
    "svc.feedback.id": feedback.feedback_id,
    "svc.feedback.score": feedback.score,
    "svc.feedback.has_correction": feedback.has_correction,
    "svc.task.id": feedback.task_id
  },
  events: [
    {
      name: "gen_ai.evaluation.result",
      at: feedback.at,
      attributes: {
        "gen_ai.evaluation.name": "human_feedback",
        "gen_ai.evaluation.score.value": { double: feedback.score },
        "gen_ai.evaluation.score.label": labels[`${feedback.score}`]
      }
    }
  ]
})

/** Returns the test span, which shows whether a collector accepts spans. */
export const testSpan = (trace_id: TraceId, at: number): Span => ({
  trace_id,
  span_id: runSpanId(trace_id),
  parent_span_id: null,
  name: "svc.test",
  kind: "internal",
  start: at,
  end: at,
  attributes: { "svc.test": true }
})
