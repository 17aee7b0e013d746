/** `countersign/server`: the layers of the service, whole and apart, for those who compose them. */
export { ApiKeys } from "./ApiKeys.ts"
export { Approvals } from "./Approvals.ts"
export { Audit, type Author } from "./Audit.ts"
export { Comparisons } from "./Comparisons.ts"
export * as Database from "./Database.ts"
export { afterCommit, transaction } from "./Database/transaction.ts"
export { Datasets, type DerivedVersion, type NewVersion } from "./Datasets.ts"
export { Deadlines } from "./Deadlines.ts"
export { Delivery } from "./Delivery.ts"
export { Egress, ProviderEgress } from "./Egress.ts"
export { Email } from "./Email.ts"
export { EmbeddedPostgres } from "./EmbeddedPostgres.ts"
export { Feedback } from "./Feedback.ts"
export { Notifications } from "./Notifications.ts"
export { Organizations } from "./Organizations.ts"
export {
  NoAnswer,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderRequest,
  Providers
} from "./Providers.ts"
export { Releases } from "./Releases.ts"
export { Rules } from "./Rules.ts"
export { type FinishedRun, RunFinished, Runs } from "./Runs.ts"
export { SecretBox } from "./SecretBox.ts"
export * as Server from "./Server.ts"
export { Sessions } from "./Sessions.ts"
export { SessionStream, type SessionStreamOptions } from "./SessionStream.ts"
export * as Settings from "./Settings.ts"
export { Shapes } from "./Shapes.ts"
export { Spans } from "./Spans.ts"
export { Steps } from "./Steps.ts"
export { StoreClock } from "./StoreClock.ts"
export { Tasks } from "./Tasks.ts"
export { Telemetry } from "./Telemetry.ts"
