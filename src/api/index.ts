/**
 * `countersign/api`: the contract as one value. Derive a client, routes, documents or tests from {@link Api}; switch on a problem's
 * `code`; the models are schemas, so they decode, encode and describe what is on the wire.
 */
export * from "./AgentApprovals.ts"
export * from "./AgentSessions.ts"
export * from "./Api.ts"
export * from "./ApiKeys.ts"
export * from "./ApprovalProblems.ts"
export * from "./Authorization.ts"
export * from "./Frame.ts"
export * from "./NotificationEndpoints.ts"
export * from "./Pagination.ts"
export * from "./Problem.ts"
export * from "./Problems.ts"
export * from "../domain/AgentSession.ts"
export * from "../domain/ApiKey.ts"
export * from "../domain/Approval.ts"
export { ApprovalEventType, approvalEventTypes } from "../domain/ApprovalEvent.ts"
export * from "../domain/Ids.ts"
export * from "../domain/NotificationEndpoint.ts"
export * from "../domain/Principal.ts"
export * from "../domain/Scope.ts"
export { Timestamp } from "../domain/Time.ts"
