/**
 * `countersign/server`: the whole service as a layer, and its services, to compose into another program. `Server` has the layers that
 * assemble them; every service that one of these requires or provides is exported here.
 */
/** The assembled service: `layer` listens; the other layers are its parts. */
export * as Server from "./Server.ts"
/** Settings and how they are decoded from environment variables. */
export * as Settings from "./config/Settings.ts"

// The edge, which a test can replace.
export { Egress, type EgressOptions, type EgressRequest, ProviderEgress } from "./egress/Egress.ts"
export { EgressFailed, type EgressReason, UrlRefused, type UrlRefusalReason } from "./egress/EgressFailed.ts"
export type { EgressResponse } from "./egress/EgressResponse.ts"
export { makeUrlRule, PublicUrl } from "../domain/network/PublicUrl.ts"
export { type Mail, type MailSettings, MailTransport } from "./notifications/MailTransport.ts"
export {
  NoAnswer,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderRequest,
  Providers
} from "./tasks/Providers.ts"
export { NearestExample } from "./tasks/Providers/NearestExample.ts"
export { Anthropic } from "./tasks/Providers/Anthropic.ts"
export type { ModelOptions } from "./tasks/Providers/makeModelProvider.ts"
export { OpenAi, type OpenAiOptions } from "./tasks/Providers/OpenAi.ts"
export { StoreClock } from "./store/StoreClock.ts"

// The database.
/** The database client: the shared pool, and pools of a consumer's own. */
export * as Database from "./store/Database.ts"
export { EmbeddedPostgres } from "./store/EmbeddedPostgres.ts"
export { layerMigrated, migrate } from "./store/migrate.ts"
export { generateMasterKey, SecretBox } from "./secrets/SecretBox.ts"
export { afterCommit, transaction } from "./store/transaction.ts"

// The limits and policies that the services require.
export { AuthenticationRefusals } from "./identity/AuthenticationRefusals.ts"
export { LimitUse } from "./observability/LimitUse.ts"
export { OrganizationLimits } from "./admission/OrganizationLimits.ts"
export type { OrganizationLimitValues } from "../domain/identity/OrganizationLimitValues.ts"
export { RateLimits } from "./admission/RateLimits.ts"
export { UnsentResponses, type UnsentLimits } from "./admission/UnsentResponses.ts"
export { VerificationLinks } from "./identity/VerificationLinks.ts"
export { VerificationPolicy, type VerificationPolicyValues } from "./identity/VerificationPolicy.ts"
export { VerifiedCredentials } from "./admission/VerifiedCredentials.ts"
export { WorkLimits, type WorkLimitValues } from "./admission/WorkLimits.ts"
export { Stopping } from "./http/Stopping.ts"

// The services.
export { ApiKeys } from "./identity/ApiKeys.ts"
export { ApprovalFeed } from "./console/ApprovalFeed.ts"
export { Approvals } from "./approvals/Approvals.ts"
export { Audit, type Author } from "./identity/Audit.ts"
export { ComparisonRuns } from "./tasks/ComparisonRuns.ts"
export { Comparisons } from "./tasks/Comparisons.ts"
export { ExampleCompared } from "./tasks/Comparisons/ExampleCalls.ts"
export { CompiledSchemas } from "./tasks/CompiledSchemas.ts"
export { ConsoleDeliveries } from "./console/ConsoleDeliveries.ts"
export { ConsoleSessions } from "./console/ConsoleSessions.ts"
export { DatasetChanges } from "./console/DatasetChanges.ts"
export { Datasets, type DerivedVersion, type NewVersion } from "./tasks/Datasets.ts"
export { BudgetCounters } from "./approvals/BudgetCounters.ts"
export { Claims } from "./approvals/Claims.ts"
export { Deadlines, type DeadlineOptions, type DeadlineRun } from "./approvals/Deadlines.ts"
export { DeliveryHealth } from "./console/DeliveryHealth.ts"
export { Overview } from "./console/Overview.ts"
export { Email } from "./notifications/Email.ts"
export { EmailAddresses, type LinkRequest } from "./identity/EmailAddresses.ts"
export { Feedback } from "./tasks/Feedback.ts"
export { AgreementHistory } from "./console/AgreementHistory.ts"
export { FeedbackList } from "./console/FeedbackList.ts"
export { RunList } from "./tasks/RunList.ts"
export { TaskList } from "./tasks/TaskList.ts"
export { Playground } from "./tasks/Playground.ts"
export { FeedbackSettings } from "./tasks/FeedbackSettings.ts"
export { FeedbackTokens } from "./tasks/FeedbackTokens.ts"
export { KnownSecrets } from "./secrets/KnownSecrets.ts"
export { Metrics, type MetricCollector } from "./observability/Metrics.ts"
export { EventLog } from "./notifications/EventLog.ts"
export { Notifications } from "./notifications/Notifications.ts"
export { Organizations } from "./identity/Organizations.ts"
export { RecentEvents } from "./notifications/Notifications/RecentEvents.ts"
export { RecentPayloads } from "./telemetry/Spans/RecentPayloads.ts"
export { Canaries } from "./tasks/Canaries.ts"
export { Releases } from "./tasks/Releases.ts"
export { Revocations, type RevocationOptions } from "./identity/Revocations.ts"
export { Rules } from "./approvals/Rules.ts"
export { type FinishedRun, RunFinished, Runs } from "./tasks/Runs.ts"
export { SessionEvents } from "./approvals/SessionEvents.ts"
export { SessionFacts } from "./approvals/SessionFacts.ts"
export { SessionSignals } from "./approvals/SessionSignals.ts"
export { SessionStream, type SessionStreamOptions } from "./approvals/SessionStream.ts"
export { SessionWriter } from "./approvals/SessionWriter.ts"
export { Sessions } from "./approvals/Sessions.ts"
export { Spans, type SpansOptions } from "./telemetry/Spans.ts"
export { Tickets } from "./approvals/Tickets.ts"
export { Steps } from "./approvals/Steps.ts"
export { Tasks } from "./tasks/Tasks.ts"
export { Telemetry } from "./telemetry/Telemetry.ts"

// The delivery engine and its channels.
export {
  type Channel,
  type ChannelPolicy,
  defaultChannelPolicy,
  Delivery,
  type DeliveryOptions,
  type DeliveryRef
} from "./delivery/Delivery.ts"
export type { AttemptOutcome } from "../domain/delivery/DeliveryState.ts"
export * as MailChannel from "./notifications/Email/MailChannel.ts"
export * as OtlpChannel from "./telemetry/Telemetry/OtlpChannel.ts"
export * as WebhookChannel from "./notifications/Notifications/WebhookChannel.ts"
