import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { TaskId } from "../../domain/Ids.ts"
import { agentSessionFilter } from "../AgentSessions.ts"
import { apiKeyFilter } from "../ApiKeys.ts"
import { Authentication, requires } from "../Authorization.ts"
import { feedbackFilter } from "../Feedback.ts"
import { RequestBody } from "../Middleware.ts"
import { NotFound, RateLimited } from "../Problems.ts"
import { runFilter } from "../Runs.ts"
import { auditRowFilter } from "./AuditRows.ts"
import { closedFilter } from "./ClosedApprovals.ts"
import { deliveryFilter } from "./Deliveries.ts"
import { runRowFilter } from "./RunRows.ts"

/** Path prefix of the exports. */
export const EXPORTS_PATH = "/console/exports"

/** `csv`: for spreadsheets. `jsonl`: JSON Lines, one record per line, as the API returns it. */
export const ExportFormat = Schema.Literals(["csv", "jsonl"])
export type ExportFormat = typeof ExportFormat.Type

/** The most records of one export: the newest ones of the list. */
export const MAX_EXPORTED = 100_000

/** Exports of one organization that one replica sends at the same time. */
export const MAX_CONCURRENT_EXPORTS = 3

const format = { format: ExportFormat }

const success = HttpApiSchema.StreamUint8Array()

/**
 * Lists as files, newest first, with the filters of the list. The browser downloads them, so that neither the page nor the service keeps
 * a whole list in memory.
 */
export class ConsoleExportsApi extends HttpApiGroup.make("exports")
  .add(
    HttpApiEndpoint.get("sessions", "/sessions", {
      query: { ...format, ...agentSessionFilter },
      success,
      error: RateLimited
    }).middleware(requires("sessions.read")),
    HttpApiEndpoint.get("closed_approvals", "/closed-approvals", {
      query: { ...format, ...closedFilter },
      success,
      error: RateLimited
    }).middleware(requires("approvals.read")),
    HttpApiEndpoint.get("audit_log", "/audit-log", {
      query: { ...format, ...auditRowFilter },
      success,
      error: RateLimited
    }).middleware(requires("approvals.admin")),
    HttpApiEndpoint.get("feedback", "/feedback", {
      query: { ...format, ...feedbackFilter },
      success,
      error: RateLimited
    }).middleware(requires("feedback.read")),
    HttpApiEndpoint.get("runs", "/tasks/:id/runs", {
      params: { id: TaskId },
      query: { ...format, ...runFilter },
      success,
      error: [NotFound, RateLimited]
    }).middleware(requires("runs.read")),
    HttpApiEndpoint.get("all_runs", "/runs", {
      query: { ...format, ...runRowFilter },
      success,
      error: [NotFound, RateLimited]
    }).middleware(requires("runs.read")),
    HttpApiEndpoint.get("keys", "/keys", {
      query: { ...format, ...apiKeyFilter },
      success,
      error: RateLimited
    }).middleware(requires("keys.write")),
    HttpApiEndpoint.get("deliveries", "/deliveries", {
      query: { ...format, ...deliveryFilter },
      success,
      error: RateLimited
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.get("endpoints", "/notification-endpoints", {
      query: format,
      success,
      error: RateLimited
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.get("tasks", "/tasks", { query: format, success, error: RateLimited }).middleware(
      requires("tasks.read")
    )
  )
  .prefix(EXPORTS_PATH)
  .middleware(RequestBody)
  .middleware(Authentication) {}
