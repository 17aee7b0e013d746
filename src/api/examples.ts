/**
 * The example values of the API reference: one story of a task that reads invoices and of an agent that refunds a customer. Keyed by the
 * name of the component schema that the value is an example of. A test validates each against its schema.
 */
import type { Schema } from "effect"
import { presetScopes } from "../domain/identity/Scope.ts"

const id = (prefix: string, last: string) => `${prefix}_019abf51c3a27d4e8b90a1b2c3d4e5${last}`

const ids = {
  task: id("tsk", "01"),
  release: id("rel", "02"),
  nextRelease: id("rel", "03"),
  dataset: id("dst", "04"),
  nextDataset: id("dst", "05"),
  example: id("exm", "06"),
  feedback: id("fbk", "07"),
  comparison: id("cmp", "08"),
  session: id("ses", "09"),
  approval: id("apr", "0a"),
  rule: id("rul", "0b"),
  key: id("key", "0c"),
  agentKey: id("key", "0d"),
  endpoint: id("nep", "0e"),
  delivery: id("ndl", "0f"),
  event: id("evt", "10"),
  organization: id("org", "11"),
  auditEntry: id("aud", "12"),
  destination: id("tel", "13"),
  telemetryDelivery: id("tdl", "14"),
  deletion: id("del", "16"),
  grant: id("grt", "17"),
  claim: id("clm", "18"),
  reviewer: id("tsk", "19"),
  reviewerAnswer: id("rva", "1a"),
  invitation: id("inv", "1b")
} as const

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
const previousDigest = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
const ada = { id: ids.key, name: "Ada Lovelace" }
const agent = { id: ids.agentKey, name: "support-agent" }

const input = { text: "Invoice 4711, total 129.90 EUR" }
const answer = { number: "4711", total: 129.9, currency: "EUR" }
const wrongAnswer = { number: "4711", total: 12.99, currency: "EUR" }

const inputSchema = {
  type: "object",
  properties: { text: { type: "string" } },
  required: ["text"],
  additionalProperties: false
}
const answerSchema = {
  type: "object",
  properties: { number: { type: "string" }, total: { type: "number" }, currency: { type: "string" } },
  required: ["number", "total", "currency"],
  additionalProperties: false
}

const openAi = {
  kind: "openai",
  base_url: "https://api.openai.com/v1",
  azure_api_version: null,
  model: "gpt-5-mini",
  top_p: null,
  seed: null,
  max_tokens: 500,
  reasoning_effort: "low",
  few_shot: { examples: 5, max_tokens: 4_000 },
  temperature: 0,
  structured_output: "json_schema",
  timeout_seconds: 60,
  send_traceparent: false,
  price: { input_per_million: 0.25, output_per_million: 2 }
}
const instructions = "Read the invoice. Give the total as a number."
const prompt = [
  { role: "system", content: instructions },
  { role: "user", content: JSON.stringify(input) }
]

const task = {
  id: ids.task,
  name: "Read invoices",
  instructions,
  input_schema: inputSchema,
  answer_schema: answerSchema,
  provider: openAi,
  provider_key_set: true,
  provider_headers_set: false,
  self_review: true,
  live_release_id: ids.release,
  canary_release_id: null,
  review_share: 0.05,
  dataset_id: ids.dataset,
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: ada
}

const runOrigin = {
  release_id: ids.release,
  dataset_id: ids.dataset,
  source: "provider",
  status: "succeeded",
  failure: null,
  provider: "openai",
  model: openAi.model,
  usage: { input_tokens: 184, output_tokens: 31 },
  examples: [{ id: ids.example, score: 0.82 }],
  provider_calls: 1,
  answer_repaired: false,
  duration_ms: 771,
  started_at: null,
  created_at: "2026-11-21T03:00:00.000Z"
}

const dataset = {
  id: ids.dataset,
  task_id: ids.task,
  version: 1,
  base_dataset_id: null,
  examples_erased: 0,
  example_count: 10,
  content_digest: digest,
  created_at: "2026-11-21T02:40:00.000Z",
  created_by: ada
}
const nextDataset = {
  ...dataset,
  id: ids.nextDataset,
  version: 2,
  base_dataset_id: ids.dataset,
  example_count: 11
}

const pendingFeedback = {
  id: ids.feedback,
  task_id: ids.task,
  inference_log_id: trace,
  score: -1,
  score_value: null,
  score_label: "wrong total",
  comment: "The total lacks the delivery.",
  source: "api_key",
  end_user: null,
  correction: answer,
  status: "pending",
  created_at: "2026-11-21T03:02:11.004Z",
  created_by: agent,
  current: true,
  withdrawn_at: null,
  reviewed_at: null,
  reviewed_by: null,
  review_note: null,
  dataset_id: null
}
const stagedFeedback = {
  ...pendingFeedback,
  status: "staged",
  reviewed_at: "2026-11-21T03:10:00.000Z",
  reviewed_by: ada
}

const side = {
  agreed: 9,
  agreement: 0.9,
  agreement_interval: { low: 0.596, high: 0.982 },
  repeats: null,
  score: 0.95,
  failed: 0,
  input_tokens: 1_840,
  output_tokens: 310,
  cost: 0.00108,
  latency_ms: { mean: 812.4, p50: 771.2, p95: 1_340.9 }
}

/** A side of a comparison that has compared nothing yet. */
const uncomparedSide = {
  ...side,
  agreed: 0,
  agreement: null,
  agreement_interval: { low: 0, high: 1 },
  score: null,
  input_tokens: 0,
  output_tokens: 0,
  cost: null,
  latency_ms: null
}
const liveSide = {
  ...side,
  agreed: 7,
  agreement: 0.7,
  score: 0.8,
  agreement_interval: { low: 0.397, high: 0.892 }
}
const comparison = {
  id: ids.comparison,
  task_id: ids.task,
  status: "completed",
  candidate: { instructions, provider: openAi, dataset_id: ids.dataset },
  live_release_id: ids.release,
  dataset_id: ids.dataset,
  hold_out: { kind: "leave_one_out" },
  repeats: 1,
  evaluators: { "/total": { kind: "number", absolute_tolerance: 0.01, relative_tolerance: 0, weight: 1 } },
  judge: null,
  budget: { max_calls: 100, max_tokens: null, max_cost: null, max_failures: null },
  spent: { calls: 20, input_tokens: 3_680, output_tokens: 620, cost: 0.00216 },
  example_count: 10,
  compared: 10,
  summary: {
    candidate: side,
    live: liveSide,
    verdicts: { win: 3, regression: 1, both_agree: 6, neither_agrees: 0 },
    difference: { value: 0.2, low: -0.13, high: 0.51 },
    fields: [{ field: "total", compared: 10, candidate: 9, live: 7 }],
    origins: [{ origin: "made", compared: 10, candidate: 9, live: 7 }],
    warning: null,
    judge: null
  },
  created_at: "2026-11-21T04:00:00.000Z",
  created_by: ada,
  finished_at: "2026-11-21T04:00:09.512Z",
  failure: null
}
const outcome = {
  answer,
  agrees: true,
  disagreeing: [],
  score: 1,
  verdict: null,
  failure: null,
  examples: [{ id: ids.example, score: 0.62 }],
  input_tokens: 184,
  output_tokens: 31,
  cost: 0.000108,
  duration_ms: 771.2
}
const result = {
  example_id: ids.example,
  origin: "made",
  input,
  expected: answer,
  candidate: outcome,
  live: { ...outcome, answer: wrongAnswer, agrees: false, disagreeing: ["total"], score: 0.5 }
}

const release = {
  id: ids.release,
  task_id: ids.task,
  number: 3,
  instructions,
  provider: openAi,
  dataset_id: ids.dataset,
  comparison_id: null,
  restored_release_id: null,
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: ada
}

const canary = {
  release: { ...release, id: ids.nextRelease, number: 4, comparison_id: ids.comparison },
  share: 0.1,
  started_at: "2026-11-21T04:10:00.000Z",
  canary: {
    release_id: ids.nextRelease,
    positive: 18,
    neutral: 1,
    negative: 1,
    score_mean: 0.85,
    positive_share: { value: 0.9, low: 0.699, high: 0.972 }
  },
  live: {
    release_id: ids.release,
    positive: 140,
    neutral: 20,
    negative: 40,
    score_mean: 0.5,
    positive_share: { value: 0.7, low: 0.633, high: 0.759 }
  },
  difference: { value: 0.2, low: -0.01, high: 0.299, always_low: -0.05, always_high: 0.45 }
}

const session = {
  session_id: ids.session,
  task_id: null,
  trace_id: trace,
  metadata: { ticket: "T-1024" },
  status: "open",
  created_at: "2026-11-21T05:00:00.000Z",
  created_by: agent,
  shared: false,
  closed_at: null
}

const step = {
  step_id: "refund-1",
  tool: "payments.refund",
  action_class: "write",
  arguments: { order: "4711", amount: 25.5 }
}

const claim = {
  id: ids.claim,
  step_id: step.step_id,
  attempt: 1,
  claimed_at: "2026-11-21T05:04:31.000Z",
  expires_at: "2026-11-21T05:06:31.000Z",
  idempotency_key: "9f86d081-884c-8d65-9a2f-eaa0c55ad015",
  ticket:
    "eyJhbGciOiJFZERTQSIsInR5cCI6ImNvdW50ZXJzaWduLXRpY2tldCtqd3QiLCJraWQiOiJrUHJLX3FteFZXYVlWQTl3d0JGNkl1bzN2VnpqN1R4SEN3WEJ5Z3JpbTUwIn0.eyJqdGkiOiJjbG1fMDE5YWJmNTFjM2EyN2Q0ZThiOTBhMWIyYzNkNGU1MTgifQ.6WY2kUDyUZVe2tbeV5aQ2IbFNrA5vmZJtQyyHFtzD0RZVKJ0nXn2TjQZxA0RSMCNxk1rFqCzEM2mRkJ6y2J9Dg"
}

const resolution = {
  resolution: "succeeded",
  resolved_at: "2026-11-21T05:20:00.000Z",
  resolved_by: ada,
  comment: "The payment provider shows refund re_81."
}

const execution = {
  claim_id: ids.claim,
  session_id: ids.session,
  task_id: null,
  ...step,
  state: "completed",
  attempt: 1,
  idempotency_key: claim.idempotency_key,
  claimed_at: claim.claimed_at,
  claimed_by: agent,
  expires_at: claim.expires_at,
  unknown_at: claim.expires_at,
  outcome: {
    step_id: step.step_id,
    status: "succeeded",
    error: null,
    occurred_at: resolution.resolved_at
  },
  resolution
}

const approvalSnapshot = {
  approval_id: ids.approval,
  session_id: ids.session,
  step_id: step.step_id,
  task_id: null,
  tool: step.tool,
  action_class: step.action_class,
  arguments_digest: digest,
  status: "pending",
  stage: "reviewer",
  requested_at: "2026-11-21T05:00:02.250Z",
  review_deadline_at: "2026-11-21T06:00:02.250Z",
  escalation_deadline_at: null,
  expires_at: "2026-11-21T06:00:02.250Z",
  escalated_at: null,
  timeout_action: "reject",
  quorum: [{ count: 1, group: null }],
  approvals_required: 1,
  require_comment: "reject",
  approvals_given: 0,
  votes: [],
  outcome: null,
  decision_source: null,
  decided_at: null,
  decided_by: null,
  comment: null,
  changes_requested: false,
  proposal: null
}
const message = {
  number: 1,
  sender: "reviewer",
  sent_by: ada,
  sent_at: "2026-11-21T05:01:10.000Z",
  text: "Which photo shows the damage?"
}
const answerToIt = {
  number: 2,
  sender: "agent",
  sent_by: agent,
  sent_at: "2026-11-21T05:01:14.500Z",
  text: "The second one of ticket T-1024: the box is torn."
}
const counterProposal = {
  arguments: { order: "4711", amount: 20 },
  expires_at: "2026-11-21T06:04:40.001Z",
  used_by: null
}
const approval = {
  ...approvalSnapshot,
  arguments: step.arguments,
  rule_summary: "Refund 25.50 EUR on order 4711",
  agent_summary: "Refund for a damaged parcel"
}
const decidedApproval = {
  ...approval,
  status: "approved",
  approvals_given: 1,
  votes: [
    {
      voted_by: ada,
      voted_at: "2026-11-21T05:04:40.001Z",
      groups: ["finance"],
      stage: "reviewer",
      comment: null
    }
  ],
  outcome: "allow",
  decision_source: "human",
  decided_at: "2026-11-21T05:04:40.001Z",
  decided_by: ada,
  comment: "Order 4711 was damaged."
}

const grantCondition = { pointer: "/amount", op: "at_most", value: 100 }

const grant = {
  grant_id: ids.grant,
  status: "active",
  session_id: ids.session,
  approval_id: ids.approval,
  step_id: step.step_id,
  scope: "condition",
  tool: step.tool,
  action_class: step.action_class,
  when: [grantCondition],
  reason: "Small refunds of this batch were checked.",
  uses: 3,
  max_uses: 50,
  last_used_at: "2026-11-21T05:11:09.417Z",
  created_at: "2026-11-21T05:04:40.001Z",
  created_by: ada,
  expires_at: "2026-11-21T06:04:40.001Z",
  ended_at: null,
  revoked_by: null
}

const newGrant = {
  scope: grant.scope,
  when: grant.when,
  lasts_seconds: 3_600,
  max_uses: grant.max_uses,
  reason: grant.reason
}

const decisionResult = {
  approval_id: ids.approval,
  approval: {
    ...approvalSnapshot,
    status: "approved",
    outcome: "allow",
    decision_source: "human",
    decided_at: "2026-11-21T05:04:40.001Z",
    decided_by: ada,
    comment: "Checked with the depot."
  },
  problem: null
}

const ruleTestStep = {
  type: "step",
  finding: "rejected_would_run",
  approval_id: ids.approval,
  session_id: ids.session,
  step_id: step.step_id,
  task_id: null,
  tool: step.tool,
  action_class: step.action_class,
  requested_at: "2026-11-21T05:00:02.250Z",
  decided_at: "2026-11-21T05:04:40.001Z",
  decided_by: ada,
  comment: "Not without the receipt.",
  rule_index: 0,
  reason: "Small refunds need no person."
}

const redactionPattern = { name: "Employee number", pattern: "\\bEMP-[0-9]{6}\\b" }

const rule = {
  id: ids.rule,
  tool: "payments.*",
  action_class: "write",
  task_id: null,
  when: [],
  budgets: [],
  effect: "require_approval",
  review_seconds: 3_600,
  expiring_seconds: null,
  escalation_seconds: 1_800,
  timeout_action: "reject",
  self_approval: false,
  require_comment: "reject",
  retry_unknown: false,
  reviewer: null,
  quorum: [{ count: 1, group: "finance" }],
  reason: "Payments need a second pair of eyes.",
  summary_template: "Refund {amount|money:EUR} on order {order}"
}

const apiKey = {
  id: ids.key,
  name: "Ada Lovelace",
  hint: "csk_4Zr8mWq2LxT0aBcD_",
  preset: "reviewer",
  scopes: presetScopes("reviewer"),
  groups: ["finance"],
  email: "ada@example.com",
  email_verified_at: "2026-11-21T02:41:12.000Z",
  email_awaits_verification: false,
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: null,
  expires_at: null,
  revoked_at: null,
  revocation_reason: null,
  allowed_networks: ["203.0.113.0/24"],
  last_used_at: "2026-11-21T09:12:44.000Z"
}

const endpoint = {
  id: ids.endpoint,
  description: "Orders team, production",
  events: ["approval.requested", "approval.expired"],
  active: true,
  disabled: null,
  public_signature: false,
  verified_at: "2026-11-21T02:34:10.456Z",
  awaits_verification: false,
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: ada,
  url_hint: "https://example.com/…",
  cooldown_until: null,
  consecutive_failures: 0,
  pending_deliveries: 0
}
const delivery = {
  id: ids.delivery,
  event_id: ids.event,
  label: `approval.requested ${ids.approval}`,
  status: "failed",
  attempts: 1,
  replays: 0,
  last_error: "status 500",
  created_at: "2026-11-21T05:00:02.251Z",
  finished_at: "2026-11-21T20:11:40.000Z"
}
const secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

const deletion = {
  id: ids.deletion,
  kind: "erasure",
  target_id: null,
  metadata_key: "customer_id",
  metadata_digest: digest,
  end_user: null,
  status: "completed",
  deleted: { runs: 12, feedback: 2, examples: 1, sessions: 3 },
  created_at: "2026-11-21T05:04:40.001Z",
  created_by: ada,
  finished_at: "2026-11-21T05:04:43.210Z"
}

/** The body of a webhook, without its `type` and `approval`. */
export const webhookExample = {
  id: ids.event,
  org_id: ids.organization,
  occurred_at: "2026-11-21T05:00:02.250Z"
}

/** The approval in a webhook, for a status that no person caused. */
export const webhookApprovalExample = {
  approval_id: ids.approval,
  session_id: ids.session,
  step_id: step.step_id,
  task_id: null,
  stage: "reviewer",
  requested_at: "2026-11-21T05:00:02.250Z",
  review_deadline_at: "2026-11-21T06:00:02.250Z",
  escalation_deadline_at: null,
  expires_at: "2026-11-21T06:00:02.250Z",
  approvals_required: 1,
  approvals_given: 0
}

const reviewer = {
  task_id: ids.reviewer,
  name: "Small refunds",
  release_id: ids.release,
  state: "watching",
  stopped_at: null,
  stopped_reason: null,
  stopped_by: null,
  tools: ["payments.refund"],
  amount: { pointer: "/amount", bounds: [100, 1_000] },
  daily_calls: 1_000,
  daily_tokens: 2_000_000,
  used: { calls: 37, tokens: 41_200, used_up: false },
  failures: 0,
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: ada
}

const reviewerFigures = {
  tool: "payments.refund",
  band: { above: null, up_to: 100 },
  has_amount: true,
  agreement: { count: 412, of: 415, bound: 0.963 },
  false_approvals: { count: 1, of: 380, bound: 0.0285 },
  false_rejections: { count: 2, of: 35, bound: 0.27 },
  unsure: 21,
  approve: "false_approvals",
  reject: "agreement",
  missing: 187,
  weeks: [{ week: "2026-11-16", agreed: 101, false_approvals: 0, false_rejections: 1, unsure: 4 }]
}

const approvalEvent = {
  ...webhookExample,
  type: "approval.requested",
  approval: { ...webhookApprovalExample, status: "pending" }
}

const reviewerAnswer = {
  id: ids.reviewerAnswer,
  task_id: ids.reviewer,
  release_id: ids.release,
  session_id: ids.session,
  step_id: "refund-1",
  approval_id: ids.approval,
  tool: "payments.refund",
  band: { above: null, up_to: 100 },
  mode: "shadow",
  decision: "approve",
  reason: "The order arrived damaged, and the amount is within its total.",
  verdict: "approve",
  tokens: 1_112,
  created_at: "2026-11-21T05:00:03.000Z",
  decided_at: "2026-11-21T05:04:40.000Z",
  wrong_at: null,
  wrong_by: null
}

const invitation = {
  id: ids.invitation,
  name: "Grace Hopper",
  email: "grace@example.com",
  preset: "reviewer",
  scopes: presetScopes("reviewer"),
  groups: [],
  status: "pending",
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: ada,
  expires_at: "2026-11-28T02:33:05.123Z",
  accepted_at: null,
  key_id: null,
  revoked_at: null
}

/** Examples by component schema. */
export const schemaExamples: Readonly<Record<string, Schema.Json>> = {
  ApiKey: apiKey,
  ApiKeyChange: { name: "Ada King", email: "ada.king@example.com" },
  NewApiKey: { name: "Ada Lovelace", preset: "reviewer", email: "ada@example.com" },
  NewInvitation: { name: "Grace Hopper", preset: "reviewer", email: "grace@example.com" },
  Invitation: invitation,
  InvitationPage: { invitations: [invitation], next_cursor: null, mail_configured: true },
  CreatedApiKey: {
    key: apiKey,
    secret: "csk_4Zr8mWq2LxT0aBcD_EXAMPLEONLYEXAMPLEONLYEXAMPLEONLYEXAMPLEONLY0000"
  },
  Task: task,
  SavedTask: { ...task, warnings: [] },
  NewTask: {
    name: task.name,
    instructions,
    input_schema: inputSchema,
    answer_schema: answerSchema,
    provider: {
      kind: "openai",
      base_url: openAi.base_url,
      model: openAi.model,
      api_key: "sk-example"
    }
  },
  TaskChange: { instructions: "Read the invoice. Give the total as a number, without the currency." },
  NewRun: { input },
  TaskRun: {
    trace_id: trace,
    task_id: ids.task,
    release_id: ids.release,
    dataset_id: ids.dataset,
    answer: wrongAnswer,
    examples: [{ id: ids.example, score: 0.82 }],
    usage: { input_tokens: 184, output_tokens: 31 },
    created_at: "2026-11-21T03:00:00.000Z"
  },
  Dataset: dataset,
  CreatedDataset: {
    ...dataset,
    examples_added: 1,
    examples_replaced: 0,
    examples_removed: 0,
    examples_repeated: 0
  },
  NewDataset: { base_dataset_id: null, examples: [{ input, answer }] },
  Example: { id: ids.example, input, answer, source_feedback_id: null, origin: "made" },
  ChatExample: { messages: [...prompt, { role: "assistant", content: JSON.stringify(answer) }] },
  PreferencePair: {
    input: { messages: prompt },
    preferred_output: [{ role: "assistant", content: JSON.stringify(answer) }],
    non_preferred_output: [{ role: "assistant", content: JSON.stringify(wrongAnswer) }]
  },
  Comparison: comparison,
  NewComparison: {
    candidate: { instructions },
    evaluators: { "/total": { kind: "number", absolute_tolerance: 0.01 } },
    budget: { max_calls: 100 }
  },
  AcceptedComparison: {
    comparison: {
      ...comparison,
      status: "running",
      compared: 0,
      spent: { calls: 0, input_tokens: 0, output_tokens: 0, cost: null },
      finished_at: null,
      summary: {
        candidate: uncomparedSide,
        live: uncomparedSide,
        verdicts: { win: 0, regression: 0, both_agree: 0, neither_agrees: 0 },
        difference: { value: 0, low: -1, high: 1 },
        fields: [],
        origins: [],
        warning: null,
        judge: null
      }
    }
  },
  EndedComparison: {
    comparison: { ...comparison, status: "cancelled", failure: "Cancelled by Ada Lovelace." }
  },
  ComparisonDetail: { comparison, results: [result], next_cursor: null },
  Release: release,
  ReleaseChanges: {
    release_id: ids.nextRelease,
    since: ids.release,
    instructions: [
      { op: "same", text: "Read the invoice." },
      { op: "added", text: "Give the total as a number." }
    ],
    provider: [{ setting: "/model", before: "gpt-5-nano", after: "gpt-5-mini" }],
    dataset: { before: ids.dataset, after: ids.nextDataset }
  },
  Canary: canary,
  Reviewer: reviewer,
  ReviewerList: { reviewers: [reviewer] },
  NewReviewer: {
    name: reviewer.name,
    provider: { kind: "openai", base_url: openAi.base_url, model: openAi.model, api_key: "sk-example" },
    instructions: "Refunds of damaged goods are approved up to the order's total.",
    tools: reviewer.tools,
    amount: reviewer.amount
  },
  ReviewerChange: { daily_calls: 200 },
  ReviewerDetail: { reviewer, figures: [reviewerFigures] },
  ReviewerAnswer: reviewerAnswer,
  ReviewerAnswerPage: { answers: [reviewerAnswer], next_cursor: null },
  BacktestReviewer: { min_lower_bound: 0.95, max_false_approvals: 0.02, sample: 0.1, days: 30 },
  ReviewerBacktest: {
    since: "2026-10-22T05:00:00.000Z",
    compared: 436,
    decided: 118,
    agreed: 117,
    false_approvals: 1,
    false_rejections: 0,
    sampled: 14,
    unsure: 21,
    not_earned: 283,
    first_decided_at: "2026-11-09T11:40:12.000Z",
    truncated: false
  },
  PromoteReviewerExamples: { limit: 500 },
  NewCanary: { comparison_id: ids.comparison, share: 0.1 },
  NewRelease: { comparison_id: ids.comparison },
  Feedback: pendingFeedback,
  NewFeedback: { inference_log_id: trace, score: -1, correction: answer },
  EndUserFeedback: { score: -1, comment: "The total is wrong." },
  NewFeedbackToken: { expires_in_seconds: 3_600, max_uses: 3, end_user_id: "customer-4711" },
  CreatedFeedbackToken: {
    token: "cft_eyJpZCI6ImZidF8….8d1f4d0f6a1c2b3e.EXAMPLEONLY",
    url: `https://countersign.example.com/v1/runs/${trace}/end-user-feedback`,
    inference_log_id: trace,
    expires_at: "2026-11-21T04:02:11.000Z",
    max_uses: 3,
    end_user: "eu_6f1c0b9d2e8a4f57b3c1d0e9f8a7b6c5"
  },
  FeedbackSettings: { allowed_origins: ["https://app.example.com"], revision: 1 },
  ReplaceFeedbackSettings: { allowed_origins: ["https://app.example.com"], revision: 0 },
  FeedbackDetail: { ...pendingFeedback, input, answer: wrongAnswer, run: runOrigin },
  FeedbackQuality: {
    releases: [
      {
        release_id: ids.release,
        positive: 41,
        neutral: 3,
        negative: 6,
        score_mean: 0.7,
        positive_share: { value: 0.82, low: 0.692, high: 0.902 },
        labels: [{ label: "wrong total", count: 4 }],
        first_day: "2026-11-21",
        last_day: "2026-11-21"
      }
    ],
    days: [
      {
        day: "2026-11-21",
        release_id: ids.release,
        positive: 41,
        neutral: 3,
        negative: 6,
        score_mean: 0.7
      }
    ]
  },
  Run: {
    trace_id: trace,
    task_id: ids.task,
    input,
    answer: wrongAnswer,
    ...runOrigin,
    session_id: null,
    metadata: { customer: "acme" },
    created_by: agent,
    awaits_review: false
  },
  RunImport: {
    runs: [
      {
        id: "invoice-4711",
        input,
        answer: wrongAnswer,
        answered_by: {
          provider: "openai",
          model: "gpt-5",
          usage: { input_tokens: 184, output_tokens: 31 },
          started_at: "2026-11-21T02:59:58.000Z",
          duration_ms: 840
        },
        score: -1
      }
    ]
  },
  RunImportResult: {
    runs: [{ id: "invoice-4711", trace_id: trace, status: "imported" }],
    problems: []
  },
  RejectRequest: { note: "The total is right as it was." },
  PromoteRequest: { base_dataset_id: ids.dataset, expected_feedback_revision: digest },
  PromotionPreview: {
    base_dataset_id: ids.dataset,
    feedback_revision: digest,
    corrections: [{ ...stagedFeedback, input }],
    next_cursor: null,
    correction_count: 1,
    superseded: [],
    superseded_count: 0,
    examples_added: 1,
    examples_replaced: 0,
    example_count: 11
  },
  PreviewRequest: { feedback_ids: [ids.feedback] },
  ReviewManyRequest: { feedback_ids: [ids.feedback], verdict: "stage" },
  ReviewResult: { feedback_id: ids.feedback, status: "staged", problem: null },
  ReviewResults: { results: [{ feedback_id: ids.feedback, status: "staged", problem: null }] },
  PromotionResult: { dataset: nextDataset, promoted: [ids.feedback], feedback_revision: digest },
  AgentSession: session,
  NewAgentSession: { metadata: { ticket: "T-1024" } },
  StepRequest: step,
  GovernedStep: {
    step_id: step.step_id,
    decision: "pending",
    approval_id: ids.approval,
    reason: rule.reason,
    rule_id: ids.rule,
    decision_source: null,
    decided_by: null,
    comment: null,
    changes_requested: false,
    grant_id: null,
    expires_at: "2026-11-21T06:00:02.250Z",
    arguments_digest: digest,
    proposal: null
  },
  ClaudeCodeHookInput: {
    session_id: "5b1f8f0e-6a4e-4f5a-9a0a-0d3e8d1a7c11",
    hook_event_name: "PreToolUse",
    permission_mode: "default",
    tool_name: "Bash",
    tool_input: { command: "npm publish" },
    tool_use_id: "toolu_01Hq3vXWc8b2S7m9n5p4r6t8"
  },
  ClaudeCodeHookAnswer: {
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: "allow",
      permissionDecisionReason: "Countersign allowed this call."
    }
  },
  OutcomeReport: { status: "succeeded", claim_id: ids.claim, result: { refund: "re_81" } },
  Claim: claim,
  ClaimRequest: { lease_seconds: 120 },
  RenewClaimRequest: { claim_id: ids.claim, lease_seconds: 120 },
  ClaimedStep: { claim },
  ExecutionResolution: resolution,
  Execution: execution,
  ResolveRequest: { resolution: "succeeded", comment: resolution.comment },
  StepOutcome: {
    step_id: step.step_id,
    status: "succeeded",
    result: { refund: "re_81" },
    error: null,
    occurred_at: "2026-11-21T05:04:45.000Z"
  },
  Approval: decidedApproval,
  ApprovalSnapshot: approvalSnapshot,
  CounterProposal: counterProposal,
  NewApprovalMessage: { text: message.text },
  ApprovalMessage: message,
  ApprovalMessages: { messages: [message, answerToIt] },
  DecideRequest: { decision: "approve", comment: "Order 4711 was damaged." },
  DecidedApproval: { ...decidedApproval, grant: { ...grant, uses: 0, last_used_at: null } },
  NewGrant: newGrant,
  Grant: grant,
  DecideManyRequest: {
    approval_ids: [ids.approval],
    decision: "approve",
    comment: "Checked with the depot."
  },
  DecisionResult: decisionResult,
  DecisionResults: { results: [decisionResult] },
  ApprovalRules: { rules: [rule], revision: 7, warnings: [] },
  ReplaceApprovalRules: {
    rules: [
      { tool: "payments.*", effect: "require_approval", escalation_seconds: 1_800 },
      { tool: "search.*", effect: "allow" }
    ],
    revision: 6
  },
  TestApprovalRules: {
    rules: [
      {
        tool: "payments.refund",
        when: [{ pointer: "/amount", op: "at_most", value: 100 }],
        effect: "allow"
      }
    ],
    since: "2026-10-22T00:00:00.000Z"
  },
  RuleTestLine: ruleTestStep,
  RuleTestReport: {
    steps: [ruleTestStep],
    result: {
      type: "result",
      since: "2026-10-22T00:00:00.000Z",
      until: "2026-11-21T00:00:00.000Z",
      steps: 240,
      recorded: { allow: 200, reject: 0, require_approval: 40 },
      tested: { allow: 210, reject: 0, require_approval: 30 },
      changes: [{ recorded: "require_approval", tested: "allow", steps: 10 }],
      more_questions: 0,
      fewer_questions: 10,
      approvals: { approved: 38, rejected: 2, timed_out: 0, session_closed: 0, other: 0, pending: 0 },
      same_as_person: 9,
      rejected_would_run: 1,
      approved_would_be_rejected: 0,
      unlisted: 0,
      warnings: []
    }
  },
  ShadowApprovalRules: {
    active: true,
    rules: [rule],
    revision: 3,
    since: "2026-11-20T09:00:00.000Z",
    warnings: []
  },
  ReplaceShadowRules: {
    rules: [
      {
        tool: "payments.refund",
        when: [{ pointer: "/amount", op: "at_most", value: 100 }],
        effect: "allow"
      },
      { tool: "payments.*", effect: "require_approval" }
    ],
    revision: 2
  },
  PromoteShadowRules: { revision: 7, shadow_revision: 3 },
  ShadowDifferences: {
    differences: [
      {
        session_id: ids.session,
        step_id: step.step_id,
        task_id: null,
        tool: "payments.refund",
        action_class: "write",
        requested_at: "2026-11-21T05:00:02.250Z",
        live: { effect: "require_approval", rule_id: ids.rule, reason: rule.reason },
        shadow: {
          effect: "allow",
          rule_id: ids.rule,
          reason: "A rule allows this step (rule 1: /amount at_most)"
        },
        approval_id: ids.approval,
        outcome: "allow",
        decision_source: "human"
      }
    ],
    next_cursor: null,
    revision: 3,
    changes: [{ live: "require_approval", shadow: "allow", steps: 1 }]
  },
  RuleSuggestions: {
    suggestions: [
      {
        rule: {
          tool: "payments.refund",
          action_class: "write",
          task_id: null,
          when: [{ pointer: "/amount", op: "at_most", value: 100 }],
          effect: "allow"
        },
        before_rule_id: ids.rule,
        decisions: 412,
        exceptions: 1,
        exception_ids: [ids.approval],
        measured: 205,
        error_upper_bound: 0.027,
        people: 3,
        first_at: "2026-10-22T08:11:30.412Z",
        last_at: "2026-11-21T02:33:05.123Z"
      }
    ],
    revision: 7,
    looked_at: 641,
    unread: 17,
    already_decided: 92,
    without_arguments: 0,
    oldest_at: "2026-10-22T08:11:30.412Z"
  },
  RedactionPattern: redactionPattern,
  RedactionSettings: {
    patterns: [redactionPattern],
    exceptions: [{ name: "Test card", pattern: "4242 4242 4242 4242" }],
    personal_data: ["email_address", "card_number"],
    redact_runs: true,
    revision: 3
  },
  ReplaceRedactionSettings: {
    patterns: [redactionPattern],
    personal_data: ["email_address", "card_number"],
    redact_runs: true,
    revision: 2
  },
  RetentionSettings: { run_days: 90, feedback_days: null, session_days: 365, revision: 2 },
  ReplaceRetentionSettings: { run_days: 90, session_days: 365, revision: 1 },
  Deletion: deletion,
  NewErasure: { metadata_key: "customer_id", metadata_value: "c-4711" },
  PreviewRedaction: {
    value: { note: "EMP-123456 called" },
    settings: { patterns: [redactionPattern] }
  },
  RedactionPreview: { value: { note: "[REDACTED] called" }, count: 1, pointers: ["#/value/note"] },
  NotificationEndpoint: endpoint,
  NewNotificationEndpoint: {
    url: "https://example.com/webhooks/countersign",
    events: ["approval.requested", "approval.expired"]
  },
  CreatedNotificationEndpoint: { endpoint, secret },
  NotificationEndpoints: { endpoints: [endpoint], email_notifier: true },
  NotificationEndpointChange: { active: true },
  RotatedSecret: { secret },
  TestDelivery: { queued: true, id: ids.delivery },
  NotificationDeliveries: { deliveries: [delivery] },
  DeliveryDetail: {
    ...delivery,
    attempt_log: [
      {
        attempt: 1,
        started_at: "2026-11-21T05:00:02.300Z",
        duration_ms: 84,
        status: 500,
        error: "status 500"
      }
    ]
  },
  QueuedDelivery: { queued: true, id: ids.delivery },
  ReplayWindow: { since: "2026-11-21T00:00:00.000Z", until: "2026-11-22T00:00:00.000Z" },
  ReplayCounts: { queued: 12, skipped: 0 },
  ApprovalEvent: approvalEvent,
  ApprovalEventPage: { events: [approvalEvent], next_cursor: "MTI4LjE3Njk4NTAwMDIyNTA", has_more: false },
  AuditEntry: {
    id: ids.auditEntry,
    action: "approval.approved",
    target_id: ids.approval,
    actor: ada,
    occurred_at: "2026-11-21T05:04:40.001Z",
    request_id: "req_019abf51c3a27d4e8b90a1b2c3d4e515",
    detail: { session_id: ids.session, step_id: step.step_id, tool: step.tool }
  },
  ChainedAuditEntry: {
    org_id: ids.organization,
    position: 42,
    id: ids.auditEntry,
    action: "approval.approved",
    target_id: ids.approval,
    actor: ada,
    occurred_at: "2026-11-21T05:04:40.001Z",
    request_id: "req_019abf51c3a27d4e8b90a1b2c3d4e515",
    detail: { session_id: ids.session, step_id: step.step_id, tool: step.tool },
    previous_digest: previousDigest,
    digest
  },
  AuditCheckpoint: {
    org_id: ids.organization,
    position: 42,
    digest,
    created_at: "2026-11-21T06:00:00.000Z"
  },
  TelemetryDestinations: {
    destinations: [
      {
        id: ids.destination,
        url_hint: "https://otel.example.com/…",
        content: false,
        trace: "own",
        scores: "span",
        compression: "auto",
        created_at: "2026-11-21T02:33:05.123Z",
        last_delivered_at: "2026-11-21T05:05:00.000Z",
        last_error: null,
        pending_spans: 0,
        dropped_spans: 0
      }
    ]
  },
  NewTelemetryDestination: {
    url: "https://otel.example.com/v1/traces",
    headers: { authorization: "Bearer example" },
    content: false,
    trace: "own",
    scores: "span",
    compression: "auto"
  },
  CreatedTelemetryDestination: { id: ids.destination, url_hint: "https://otel.example.com/…" },
  AcceptedTest: { delivered: true },
  TelemetryDeliveries: {
    deliveries: [
      {
        id: ids.telemetryDelivery,
        signal: "spans",
        status: "delivered",
        span_count: 214,
        rejected_spans: 0,
        attempts: 1,
        replays: 0,
        http_status: 200,
        last_error: null,
        created_at: "2026-11-21T05:04:59.000Z",
        finished_at: "2026-11-21T05:05:00.000Z"
      }
    ]
  },
  QueuedTelemetryDelivery: { queued: true, id: ids.telemetryDelivery }
}

/** The members that single problems have beside the common ones, by component schema. */
export const problemExampleFields: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  InsufficientScope: { required_scope: "approvals.decide" },
  InvalidRequest: { errors: [{ pointer: "#/name", detail: "Expected a string." }] },
  StepMismatch: { mismatched: ["arguments"] },
  RulesChanged: { current_revision: 7 },
  RedactionSettingsChanged: { current_revision: 3 },
  RetentionSettingsChanged: { current_revision: 2 },
  FeedbackSettingsChanged: { current_revision: 1 },
  DatasetBaseChanged: { current_dataset_id: ids.nextDataset },
  FeedbackChanged: { current_dataset_id: ids.dataset, current_feedback_revision: digest },
  LiveReleaseChanged: { current_release_id: ids.nextRelease },
  CursorExpired: { first_kept: 120 },
  RateLimited: { retry_after_seconds: 2 },
  DatasetBusy: { retry_after_seconds: 10 },
  ApprovalAlreadyDecided: { approval: decidedApproval },
  StepAlreadyClaimed: {
    state: "executing",
    claimed_at: claim.claimed_at,
    claimed_by: agent,
    outcome: null
  },
  ExecutionNotUnknown: { execution },
  ApprovalExpired: {
    approval: {
      ...approval,
      status: "expired",
      outcome: "reject",
      decision_source: "timeout",
      decided_at: "2026-11-21T06:00:02.250Z"
    }
  }
}

/** The two members of an approval in a webhook that a person decided. */
export const webhookDecisionExample = { decided_at: "2026-11-21T05:04:40.001Z", decided_by: ada }

/** The challenge of a verification event. */
export const webhookChallengeExample = { challenge: "6nRy1mHjV0WlqzX2q8Zb7gqS3cCkYxUe0dT4pLw9aBo" }
