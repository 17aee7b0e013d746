/** The lists that the console exports: the records as the API returns them, and the columns of their CSV. */
import { Schema } from "effect"
import { agentSessionFilter } from "../../../api/AgentSessions.ts"
import { apiKeyFilter } from "../../../api/ApiKeys.ts"
import { auditRowFilter } from "../../../api/console/AuditRows.ts"
import { closedFilter } from "../../../api/console/ClosedApprovals.ts"
import { deliveryFilter, LoggedDelivery } from "../../../api/console/Deliveries.ts"
import { runRowFilter } from "../../../api/console/RunRows.ts"
import { feedbackFilter } from "../../../api/Feedback.ts"
import { AgentSession } from "../../../domain/approvals/AgentSession.ts"
import { Approval } from "../../../domain/approvals/Approval.ts"
import type { CsvValue } from "../../../domain/csv.ts"
import { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { ApiKey } from "../../../domain/identity/ApiKey.ts"
import { AuditEntry } from "../../../domain/identity/AuditEntry.ts"
import { FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import { RunRecord } from "../../../domain/tasks/Run.ts"
import { Task } from "../../../domain/tasks/Task.ts"

/** A list with a file format. */
export interface ExportedList<Item, Encoded, Filter> {
  /** In file names and in the audit log. */
  readonly name: string
  /** The filters of the list, which the audit log shows as they are encoded. */
  readonly filter: Schema.Codec<Filter, Readonly<Record<string, Schema.Json | undefined>>>
  readonly item: Schema.Codec<Item, Encoded>
  /** The columns of the CSV, in order: each returns its value of an encoded record. */
  readonly columns: Readonly<Record<string, (record: Encoded) => CsvValue | undefined>>
}

const exportedList = <Item, Encoded, Fields extends Schema.Struct.Fields>({
  filter,
  ...list
}: Omit<ExportedList<Item, Encoded, never>, "filter"> & { readonly filter: Fields }) => ({
  ...list,
  filter: Schema.Struct(filter)
})

export const sessionsExport = exportedList({
  name: "sessions",
  filter: agentSessionFilter,
  item: AgentSession,
  columns: {
    session_id: (one) => one.session_id,
    status: (one) => one.status,
    created_at: (one) => one.created_at,
    closed_at: (one) => one.closed_at,
    agent: (one) => one.created_by.name,
    agent_key_id: (one) => one.created_by.id,
    task_id: (one) => one.task_id,
    trace_id: (one) => one.trace_id,
    metadata: (one) => one.metadata
  }
})

export const closedApprovalsExport = exportedList({
  name: "closed-approvals",
  filter: closedFilter,
  item: Approval,
  columns: {
    approval_id: (one) => one.approval_id,
    tool: (one) => one.tool,
    action_class: (one) => one.action_class,
    status: (one) => one.status,
    outcome: (one) => one.outcome,
    decision_source: (one) => one.decision_source,
    decided_at: (one) => one.decided_at,
    decided_by: (one) => one.decided_by?.name,
    decided_by_key_id: (one) => one.decided_by?.id,
    comment: (one) => one.comment,
    changes_requested: (one) => one.changes_requested,
    stage: (one) => one.stage,
    requested_at: (one) => one.requested_at,
    expires_at: (one) => one.expires_at,
    escalated_at: (one) => one.escalated_at,
    approvals_required: (one) => one.approvals_required,
    approved_by: (one) => one.votes.map(({ voted_by }) => voted_by.name).join("; "),
    session_id: (one) => one.session_id,
    step_id: (one) => one.step_id,
    task_id: (one) => one.task_id,
    arguments: (one) => (one.arguments === undefined ? undefined : JSON.stringify(one.arguments)),
    arguments_digest: (one) => one.arguments_digest
  }
})

export const auditLogExport = exportedList({
  name: "audit-log",
  filter: auditRowFilter,
  item: AuditEntry,
  columns: {
    id: (one) => one.id,
    occurred_at: (one) => one.occurred_at,
    action: (one) => one.action,
    target_id: (one) => one.target_id,
    actor: (one) => one.actor?.name,
    actor_key_id: (one) => one.actor?.id,
    request_id: (one) => one.request_id,
    detail: (one) => one.detail
  }
})

export const feedbackExport = exportedList({
  name: "feedback",
  filter: feedbackFilter,
  item: FeedbackRecord,
  columns: {
    id: (one) => one.id,
    status: (one) => one.status,
    score: (one) => one.score,
    score_value: (one) => one.score_value,
    score_label: (one) => one.score_label,
    comment: (one) => one.comment,
    correction: (one) => one.correction,
    source: (one) => one.source,
    end_user: (one) => one.end_user,
    created_at: (one) => one.created_at,
    created_by: (one) => one.created_by.name,
    created_by_key_id: (one) => one.created_by.id,
    reviewed_at: (one) => one.reviewed_at,
    reviewed_by: (one) => one.reviewed_by?.name,
    review_note: (one) => one.review_note,
    task_id: (one) => one.task_id,
    inference_log_id: (one) => one.inference_log_id,
    dataset_id: (one) => one.dataset_id
  }
})

export const runsExport = exportedList({
  name: "runs",
  filter: runRowFilter,
  item: RunRecord,
  columns: {
    trace_id: (one) => one.trace_id,
    created_at: (one) => one.created_at,
    status: (one) => one.status,
    source: (one) => one.source,
    input: (one) => one.input,
    answer: (one) => one.answer,
    failure: (one) => one.failure,
    provider: (one) => one.provider,
    model: (one) => one.model,
    input_tokens: (one) => one.usage?.input_tokens,
    output_tokens: (one) => one.usage?.output_tokens,
    duration_ms: (one) => one.duration_ms,
    release_id: (one) => one.release_id,
    session_id: (one) => one.session_id,
    created_by: (one) => one.created_by.name,
    created_by_key_id: (one) => one.created_by.id,
    metadata: (one) => one.metadata,
    task_id: (one) => one.task_id
  }
})

export const keysExport = exportedList({
  name: "api-keys",
  filter: apiKeyFilter,
  item: ApiKey,
  columns: {
    id: (one) => one.id,
    name: (one) => one.name,
    hint: (one) => one.hint,
    preset: (one) => one.preset,
    scopes: (one) => one.scopes.join(" "),
    groups: (one) => one.groups.join(" "),
    email: (one) => one.email,
    email_verified_at: (one) => one.email_verified_at,
    created_at: (one) => one.created_at,
    created_by: (one) => one.created_by?.name,
    expires_at: (one) => one.expires_at,
    revoked_at: (one) => one.revoked_at,
    revocation_reason: (one) => one.revocation_reason,
    allowed_networks: (one) => one.allowed_networks?.join(" "),
    last_used_at: (one) => one.last_used_at
  }
})

export const deliveriesExport = exportedList({
  name: "deliveries",
  filter: deliveryFilter,
  item: LoggedDelivery,
  columns: {
    id: (one) => one.id,
    created_at: (one) => one.created_at,
    type: (one) => one.type,
    status: (one) => one.status,
    attempts: (one) => one.attempts,
    replays: (one) => one.replays,
    status_code: (one) => one.status_code,
    last_error: (one) => one.last_error,
    finished_at: (one) => one.finished_at,
    next_attempt_at: (one) => one.next_attempt_at,
    endpoint_id: (one) => one.endpoint_id,
    event_id: (one) => one.event_id,
    approval_id: (one) => one.approval_id,
    tool: (one) => one.tool
  }
})

export const endpointsExport = exportedList({
  name: "webhook-endpoints",
  filter: {},
  item: NotificationEndpoint,
  columns: {
    id: (one) => one.id,
    description: (one) => one.description,
    url_hint: (one) => one.url_hint,
    events: (one) => one.events.join(" "),
    active: (one) => one.active,
    disabled_at: (one) => one.disabled?.at,
    verified_at: (one) => one.verified_at,
    cooldown_until: (one) => one.cooldown_until,
    consecutive_failures: (one) => one.consecutive_failures,
    pending_deliveries: (one) => one.pending_deliveries,
    created_at: (one) => one.created_at,
    created_by: (one) => one.created_by.name,
    created_by_key_id: (one) => one.created_by.id
  }
})

export const tasksExport = exportedList({
  name: "tasks",
  filter: {},
  item: Task,
  columns: {
    id: (one) => one.id,
    name: (one) => one.name,
    provider: (one) => one.provider.kind,
    model: (one) => one.provider.model,
    instructions: (one) => one.instructions,
    input_schema: (one) => one.input_schema,
    answer_schema: (one) => one.answer_schema,
    live_release_id: (one) => one.live_release_id,
    canary_release_id: (one) => one.canary_release_id,
    dataset_id: (one) => one.dataset_id,
    review_share: (one) => one.review_share,
    created_at: (one) => one.created_at,
    created_by: (one) => one.created_by.name,
    created_by_key_id: (one) => one.created_by.id
  }
})
