/**
 * `countersign/api`: the contract as one value. Derive a client, routes, documents or tests from {@link Api}; switch on a problem's
 * `code`; the models are schemas, so they decode, encode and describe what is on the wire.
 */
export * from "./AgentApprovals.ts"
export * from "./AgentSessions.ts"
export * from "./Api.ts"
export * from "./ApiKeys.ts"
export * from "./ApprovalProblems.ts"
export * from "./ApprovalRules.ts"
export * from "./AuditLog.ts"
export * from "./Authorization.ts"
export * from "./Comparisons.ts"
export * from "./Datasets.ts"
export * from "./Feedback.ts"
export * from "./Middleware.ts"
export * from "./NotificationEndpoints.ts"
export * from "./Pagination.ts"
export * from "./Problem.ts"
export * from "./Problems.ts"
export * from "./SessionStream.ts"
export * from "./Tasks.ts"
export * from "./TelemetryDestinations.ts"
export * from "../domain/approvals/AgentSession.ts"
export * from "../domain/identity/ApiKey.ts"
export * from "../domain/approvals/Approval.ts"
export { ApprovalRule, RuleEffect } from "../domain/approvals/ApprovalRule.ts"
export { ApprovalEventType, approvalEventTypes } from "../domain/approvals/ApprovalEvent.ts"
export * from "../domain/identity/AuditEntry.ts"
export {
  DeliveryAttempt,
  DeliveryDetail,
  DeliveryRecord,
  DeliveryStatus
} from "../domain/delivery/DeliveryState.ts"
export * from "../domain/tasks/Comparison.ts"
export * from "../domain/tasks/Dataset.ts"
export * from "../domain/tasks/Feedback.ts"
export type { UnknownMember } from "../domain/OpenEnum.ts"
export * from "../domain/Ids.ts"
export * from "../domain/delivery/NotificationEndpoint.ts"
export * from "../domain/identity/Principal.ts"
export * from "../domain/tasks/Provider.ts"
export { TaskRun } from "../domain/tasks/Run.ts"
export * from "../domain/identity/Scope.ts"
export { SessionEventType } from "../domain/approvals/SessionEvent.ts"
export * from "../domain/tasks/Task.ts"
export * from "../domain/telemetry/TelemetryDestination.ts"
export { Timestamp } from "../domain/Time.ts"
