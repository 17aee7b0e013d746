/** `countersign/server`: the whole service as a layer, and its services, to compose into another program. */
export { ApiKeys } from "./identity/ApiKeys.ts"
export { Approvals } from "./approvals/Approvals.ts"
export { Audit, type Author } from "./identity/Audit.ts"
export { Comparisons } from "./tasks/Comparisons.ts"
/** The database client: the shared pool, and pools of a consumer's own. */
export * as Database from "./store/Database.ts"
export { afterCommit, transaction } from "./store/transaction.ts"
export { Datasets, type DerivedVersion, type NewVersion } from "./tasks/Datasets.ts"
export { Deadlines } from "./approvals/Deadlines.ts"
export { Delivery } from "./delivery/Delivery.ts"
export { Egress, ProviderEgress } from "./egress/Egress.ts"
export { Email } from "./notifications/Email.ts"
export { EmbeddedPostgres } from "./store/EmbeddedPostgres.ts"
export { Feedback } from "./tasks/Feedback.ts"
export { Notifications } from "./notifications/Notifications.ts"
export { Organizations } from "./identity/Organizations.ts"
export { Revocations, type RevocationOptions } from "./identity/Revocations.ts"
export {
  NoAnswer,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderRequest,
  Providers
} from "./tasks/Providers.ts"
export { Releases } from "./tasks/Releases.ts"
export { Rules } from "./approvals/Rules.ts"
export { type FinishedRun, RunFinished, Runs } from "./tasks/Runs.ts"
export { SecretBox } from "./secrets/SecretBox.ts"
/** The assembled service: `layer` listens; the other layers are its parts. */
export * as Server from "./Server.ts"
export { Sessions } from "./approvals/Sessions.ts"
export { SessionEvents } from "./approvals/SessionEvents.ts"
export { SessionSignals, type SessionSignalOptions } from "./approvals/SessionSignals.ts"
export { SessionStream, type SessionStreamOptions } from "./approvals/SessionStream.ts"
/** Settings and how they are decoded from environment variables. */
export * as Settings from "./config/Settings.ts"
export { CompiledSchemas } from "./tasks/CompiledSchemas.ts"
export { Spans } from "./telemetry/Spans.ts"
export { Steps } from "./approvals/Steps.ts"
export { StoreClock } from "./store/StoreClock.ts"
export { Tasks } from "./tasks/Tasks.ts"
export { Telemetry } from "./telemetry/Telemetry.ts"
