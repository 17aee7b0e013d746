/**
 * The spans that the service exports, and all names in them.
 *
 * `gen_ai.*`: OpenTelemetry's semantic conventions for generative AI, version 0.1.0 of `open-telemetry/semantic-conventions-genai`
 * (gen-ai-spans.md, gen-ai-agent-spans.md, gen-ai-events.md; status Development). They make the inputs and outputs of models and the
 * arguments and results of tools opt-in. Attributes without a convention are named `svc.*`. Tools count a span with `gen_ai.tool.*` as
 * the execution of a tool, and one with `gen_ai.*.messages` as a call to a model, so that only these spans have them.
 */
import type { Schema } from "effect"
import type {
  OutcomeStatus,
  StepDecision,
  StepDecisionSource,
  StepReviewer
} from "../approvals/AgentSession.ts"
import type { Approval } from "../approvals/Approval.ts"
import type {
  ApprovalId,
  DatasetId,
  GrantId,
  OrgId,
  ReleaseId,
  RuleId,
  SessionId,
  StepId,
  TaskId,
  TraceId
} from "../Ids.ts"
import { encodeMessages, type Message } from "./messages.ts"
import type { ExportSource } from "./OtlpJson.ts"
import { type Attributes, type Span, type SpanId, spanIdOf, type TraceContext } from "./Span.ts"
import type { TraceMode } from "./TelemetryDestination.ts"
import { VERSION } from "../Version.ts"

/** The conventions that `schemaUrl` names. */
const SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

/** Maximum characters of an exported input, answer, arguments or result; a longer one is truncated and marked so. */
export const MAX_CONTENT_CHARACTERS = 32 * 1024

/** The export source of one organization: the service. */
export const exportSource = (org_id: OrgId): ExportSource => ({
  resource: { "service.name": "countersign", "service.version": VERSION, "svc.org.id": org_id },
  scope: { name: "countersign", version: VERSION },
  schemaUrl: SCHEMA_URL
})

const TRUNCATED: Attributes = { "svc.content.truncated": true }

/** Content, already redacted: present only if the organization opted in. */
const content = (name: string, text: string | undefined): Attributes =>
  text === undefined
    ? {}
    : text.length <= MAX_CONTENT_CHARACTERS
      ? { [name]: text }
      : { [name]: text.slice(0, MAX_CONTENT_CHARACTERS), ...TRUNCATED }

const json = (value: Schema.Json | undefined): string | undefined =>
  value === undefined ? undefined : JSON.stringify(value)

/** Messages of a chat, already redacted. */
const messages = (
  name: "gen_ai.input.messages" | "gen_ai.output.messages",
  list: ReadonlyArray<Message> | undefined
): Attributes => {
  if (list === undefined) return {}
  const { isTruncated, text } = encodeMessages(list, MAX_CONTENT_CHARACTERS)
  return { [name]: text, ...(isTruncated ? TRUNCATED : {}) }
}

/** The input of a run as the messages of a chat. */
export const inputMessages = (value: Schema.Json | undefined): ReadonlyArray<Message> | undefined =>
  value === undefined ? undefined : [{ role: "user", content: JSON.stringify(value) }]

const outputMessages = (value: Schema.Json | undefined): ReadonlyArray<Message> | undefined =>
  value === undefined ? undefined : [{ role: "assistant", content: JSON.stringify(value) }]

/** The metadata of a model's response. All text is checked: a model server could send any. Counts are null if it sent none. */
export interface ModelResponse {
  readonly id: string | null
  readonly model: string | null
  readonly finish_reason: string | null
  readonly input_tokens: number | null
  readonly output_tokens: number | null
  /** Input tokens that the provider's cache served. */
  readonly cached_tokens: number | null
  /** Input tokens that the provider stored in its cache. */
  readonly cache_creation_tokens: number | null
  readonly reasoning_tokens: number | null
}

/** A completed call to a model within a run, by the service or by a client that reported it. Unreported values are null. */
export interface CompletedProviderCall {
  /** The provider's name in the conventions, such as `openai`. */
  readonly provider: string | null
  readonly model: string | null
  /** The host and port of the model server; null if unknown. */
  readonly server: { readonly address: string; readonly port: number } | null
  readonly temperature: number | null
  readonly top_p: number | null
  readonly max_tokens: number | null
  readonly seed: number | null
  readonly start: number
  readonly end: number
  /** The response's own metadata; null without a readable response. */
  readonly response: ModelResponse | null
  /** A low-cardinality error name; null if the call succeeded. */
  readonly error_type: string | null
  /** The messages of the request; undefined if content is not exported. */
  readonly prompt: ReadonlyArray<Message> | undefined
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
  readonly caller: TraceContext | null
  readonly calls: ReadonlyArray<CompletedProviderCall>
  readonly input: Schema.Json | undefined
  readonly answer: Schema.Json | undefined
}

/** The id of a run's span: the trace id of the run is random, so its first half is too. */
export const runSpanId = (trace_id: TraceId): SpanId => spanIdOf(trace_id.slice(0, 16))

/** The span id of a provider call: the run's, incremented by the call's number, which starts at 0. */
export const callSpanId = (trace_id: TraceId, index: number): SpanId =>
  spanIdOf(
    BigInt.asUintN(64, BigInt(`0x${trace_id.slice(0, 16)}`) + BigInt(index + 1))
      .toString(16)
      .padStart(16, "0")
  )

/** More calls than a run makes: its attempts are limited. */
const MAX_CALLS = 64n

/**
 * The trace ids of the runs that a span with this id can belong to, as the span of the run or of one of its calls. They
 * lie between the first and the last, in the order of text. Of two random ids, one is never so near to the other.
 */
export const runTraceIds = (span_id: SpanId): { readonly first: string; readonly last: string } => {
  const number = BigInt(`0x${span_id}`)
  const lowest = number > MAX_CALLS ? number - MAX_CALLS : 0n
  return { first: lowest.toString(16).padStart(16, "0"), last: span_id + "f".repeat(16) }
}

/** The trace that the spans of a run belong to: the caller's if the destination joins traces and there is one, else the run's own. */
export const exportedTrace = (
  run: { readonly trace_id: TraceId; readonly caller: TraceContext | null },
  mode: TraceMode
): { readonly trace_id: TraceId; readonly caller: TraceContext | null } =>
  mode === "join" && run.caller !== null
    ? { trace_id: run.caller.trace_id, caller: run.caller }
    : { trace_id: run.trace_id, caller: null }

/** Returns the span of a run and one for each call to a model in it. */
export const runSpans = (run: CompletedRun, mode: TraceMode): ReadonlyArray<Span> => {
  const { caller, trace_id } = exportedTrace(run, mode)
  const joined = (isParentRemote: boolean): Pick<Span, "joined"> =>
    caller === null ? {} : { joined: { flags: caller.flags, isParentRemote } }
  const shared: Attributes = {
    "gen_ai.conversation.id": run.session_id ?? undefined,
    "svc.task.id": run.task_id,
    "svc.release.id": run.release_id
  }
  const calls = run.calls.map((call, index): Span => ({
    trace_id,
    span_id: callSpanId(run.trace_id, index),
    parent_span_id: runSpanId(run.trace_id),
    name: callName(call),
    kind: "client",
    start: call.start,
    end: call.end,
    attributes: {
      ...callAttributes(call),
      ...shared,
      "error.type": call.error_type ?? undefined,
      ...messages("gen_ai.input.messages", call.prompt),
      // Only the last call can have the answer: those before it failed, or their answer did not match the schema.
      ...(index === run.calls.length - 1 && run.error_type === null
        ? messages("gen_ai.output.messages", outputMessages(run.answer))
        : {})
    },
    failed: call.error_type !== null,
    ...joined(false)
  }))
  return [
    {
      trace_id,
      span_id: runSpanId(run.trace_id),
      parent_span_id: caller?.span_id ?? null,
      name: `svc.run ${run.task_name}`,
      kind: "internal",
      start: run.start,
      end: run.end,
      attributes: {
        ...shared,
        "svc.task.name": run.task_name,
        "svc.dataset.id": run.dataset_id ?? undefined,
        "svc.run.source": run.source,
        // By which feedback names the run.
        "svc.run.trace_id": run.trace_id,
        "error.type": run.error_type ?? undefined,
        ...content("svc.run.input", json(run.input)),
        ...content("svc.run.answer", json(run.answer))
      },
      ...(run.caller === null || caller !== null ? {} : { links: [run.caller] }),
      failed: run.error_type !== null,
      ...joined(true)
    },
    ...calls
  ]
}

/** The name of the span of a call to a model. */
export const callName = ({ model }: Pick<CompletedProviderCall, "model">): string =>
  model === null ? "chat" : `chat ${model}`

/** The provider of a call whose client named only the model. */
const UNKNOWN_PROVIDER = "unknown"

/** The attributes of a call to a model, without its messages. */
export const callAttributes = (call: Omit<CompletedProviderCall, "prompt">): Attributes => {
  const { response } = call
  return {
    "gen_ai.operation.name": "chat",
    // The conventions require a provider. A client need not report one.
    "gen_ai.provider.name": call.provider ?? UNKNOWN_PROVIDER,
    "gen_ai.request.model": call.model ?? undefined,
    "gen_ai.request.temperature": double(call.temperature),
    "gen_ai.request.top_p": double(call.top_p),
    "gen_ai.request.max_tokens": call.max_tokens ?? undefined,
    "gen_ai.request.seed": call.seed ?? undefined,
    "gen_ai.output.type": "json",
    "server.address": call.server?.address,
    "server.port": call.server?.port,
    "gen_ai.response.id": response?.id ?? undefined,
    "gen_ai.response.model": response?.model ?? undefined,
    "gen_ai.response.finish_reasons":
      response === null || response.finish_reason === null ? undefined : [response.finish_reason],
    "gen_ai.usage.input_tokens": response?.input_tokens ?? undefined,
    "gen_ai.usage.output_tokens": response?.output_tokens ?? undefined,
    "gen_ai.usage.cache_read.input_tokens": response?.cached_tokens ?? undefined,
    "gen_ai.usage.cache_write.input_tokens": response?.cache_creation_tokens ?? undefined,
    "gen_ai.usage.reasoning.output_tokens": response?.reasoning_tokens ?? undefined
  }
}

const double = (value: number | null): Attributes[string] => (value === null ? undefined : { double: value })

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
  "svc.tool.name": step.tool,
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
    readonly decision_source: StepDecisionSource | null
    readonly grant_id: GrantId | null
    readonly reviewer?: StepReviewer | undefined
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
    "svc.step.decision_source": step.decision_source ?? undefined,
    "svc.step.rule_id": step.rule_id ?? undefined,
    "svc.grant.id": step.grant_id ?? undefined,
    "svc.reviewer.task_id": step.reviewer?.task_id,
    "svc.reviewer.release_id": step.reviewer?.release_id,
    "svc.step.arguments_digest": step.arguments_digest,
    "svc.approval.id": step.approval_id ?? undefined,
    ...content("svc.step.arguments", json(step.arguments))
  }
})

/** Returns the span of an allowed step's execution: from the decision to the reported outcome. */
export const outcomeSpan = (
  step: StepIdentity & {
    readonly status: OutcomeStatus
    readonly start: number
    readonly end: number
    readonly result: Schema.Json | undefined
    /** Undefined: the step was not claimed. */
    readonly attempt: number | undefined
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
    "gen_ai.tool.name": step.tool,
    ...aboutStep(step),
    "svc.outcome.status": step.status,
    "svc.claim.attempt": step.attempt,
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
    "svc.approval.approvals_required": approval.approvals_required,
    "svc.approval.approvals_given": approval.approvals_given,
    "svc.approval.escalated": approval.escalated_at !== null,
    "svc.approval.proposed": approval.proposal === null ? undefined : true
  }
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
