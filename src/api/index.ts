/**
 * `countersign/api`: the API as one value. Derive a client, routes, documents or tests from {@link Api}; branch on a
 * problem's `code`; decode and encode wire values with the models, which are schemas.
 */
export * from "./AgentApprovals.ts"
export * from "./AgentSessions.ts"
export * from "./Api.ts"
export { openApiDocument } from "./openApiDocument.ts"
export * from "./ApiKeys.ts"
export * from "./ApprovalProblems.ts"
export * from "./ApprovalRules.ts"
export * from "./AuditLog.ts"
export * from "./Authorization.ts"
export * from "./Canaries.ts"
export * from "./Comparisons.ts"
export * from "./Datasets.ts"
export * from "./DecisionBatch.ts"
export * from "./Deletions.ts"
export * from "./EndUserFeedback.ts"
export * from "./Events.ts"
export * from "./Executions.ts"
export * from "./Feedback.ts"
export * from "./FeedbackSettings.ts"
export * from "./Grants.ts"
export * from "./Hooks.ts"
export * from "./Invitations.ts"
export { ListOrder } from "./listQuery.ts"
export * from "./Middleware.ts"
export * from "./NotificationEndpoints.ts"
export * from "./Pagination.ts"
export * from "./Problem.ts"
export * from "./Problems.ts"
export * from "./RedactionSettings.ts"
export * from "./RetentionSettings.ts"
export * from "./ReviewBatch.ts"
export * from "./Reviewers.ts"
export * from "./Runs.ts"
export * from "./SessionStream.ts"
export * from "./Tasks.ts"
export * from "./TelemetryDestinations.ts"
export * from "../domain/approvals/AgentSession.ts"
export {
  Execution,
  ExecutionResolution,
  ExecutionState,
  HeldState,
  Resolution
} from "../domain/approvals/Execution.ts"
export * from "../domain/identity/ApiKey.ts"
export * from "../domain/approvals/Approval.ts"
export { ApprovalMessage, MessageSender } from "../domain/approvals/ApprovalMessage.ts"
export { ApprovalStage } from "../domain/approvals/ApprovalStage.ts"
export { CounterProposal } from "../domain/approvals/CounterProposal.ts"
export { RuleBudget, RuleBudgetSum } from "../domain/approvals/RuleBudget.ts"
export * from "../domain/approvals/Reviewer.ts"
export { RuleReviewer } from "../domain/approvals/RuleReviewer.ts"
export { QuorumPart, Vote } from "../domain/approvals/Quorum.ts"
export { Grant, GrantScope, GrantStatus } from "../domain/approvals/Grant.ts"
export { ApprovalRule, RuleEffect } from "../domain/approvals/ApprovalRule.ts"
export * from "../domain/approvals/RuleCondition.ts"
export {
  RuleEffectCounts,
  RuleTestFinding,
  RuleTestLine,
  RuleTestProgress,
  RuleTestReport,
  RuleTestResult,
  RuleTestStep
} from "../domain/approvals/RuleTest.ts"
export { RuleWarning } from "../domain/approvals/ruleWarnings.ts"
export { ShadowChange, ShadowDifference } from "../domain/approvals/ShadowDifference.ts"
export { ApprovalEvent, ApprovalEventType, approvalEventTypes } from "../domain/approvals/ApprovalEvent.ts"
export * from "../domain/identity/AuditEntry.ts"
export * from "../domain/identity/ChainedAuditEntry.ts"
export {
  DeliveryAttempt,
  DeliveryDetail,
  DeliveryRecord,
  DeliveryStatus
} from "../domain/delivery/DeliveryState.ts"
export { Budget, NewBudget, Spent } from "../domain/tasks/Budget.ts"
export { Canary, CanaryArm } from "../domain/tasks/Canary.ts"
export { DeletedCounts, Deletion, DeletionKind, DeletionStatus } from "../domain/deletion/Deletion.ts"
export * from "../domain/tasks/Comparison.ts"
export * from "../domain/tasks/Dataset.ts"
export { EndUser, EndUserId } from "../domain/tasks/EndUser.ts"
export * from "../domain/tasks/Feedback.ts"
export {
  EqualEvaluator,
  Evaluator,
  Evaluators,
  IgnoreEvaluator,
  NewEqualEvaluator,
  NewEvaluator,
  NewEvaluators,
  NewNumberEvaluator,
  NewTextEvaluator,
  NewUnorderedEvaluator,
  NumberEvaluator,
  TextEvaluator,
  UnorderedEvaluator
} from "../domain/tasks/Evaluator.ts"
export { FeedbackToken } from "../domain/tasks/FeedbackToken.ts"
export {
  DailyFeedback,
  FeedbackQuality,
  LabelCount,
  ReleaseFeedback
} from "../domain/tasks/FeedbackQuality.ts"
export {
  Benchmark,
  HoldOut,
  LeaveOneOut,
  NewBenchmark,
  NewHoldOut,
  NewTrainTestSplit,
  NoHoldOut,
  TrainTestSplit
} from "../domain/tasks/HoldOut.ts"
export { Judge, NewJudge, Verdict } from "../domain/tasks/Judge.ts"
export type { UnknownMember } from "../domain/OpenEnum.ts"
export * from "../domain/Ids.ts"
export * from "../domain/delivery/NotificationEndpoint.ts"
export { Invitation, InvitationStatus } from "../domain/identity/Invitation.ts"
export * from "../domain/identity/Principal.ts"
export * from "../domain/tasks/Provider.ts"
export { ProviderFailureReason } from "../domain/tasks/ProviderFailure.ts"
export { InstructionChange, ReleaseChanges, SettingChange } from "../domain/tasks/ReleaseChanges.ts"
export * from "../domain/tasks/Run.ts"
export { PersonalData, RedactionPattern } from "../domain/redaction/RedactionRules.ts"
export * from "../domain/identity/Scope.ts"
export { SessionEventType } from "../domain/approvals/SessionEvent.ts"
export * from "../domain/tasks/Task.ts"
export {
  ChatExample,
  OpenAiPreference,
  PreferenceForm,
  PreferencePair,
  TrainingMessage,
  TrlPreference
} from "../domain/tasks/TrainingExample.ts"
export * from "../domain/telemetry/TelemetryDestination.ts"
export { Timestamp } from "../domain/Time.ts"
