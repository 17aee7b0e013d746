import { HttpApi, OpenApi } from "effect/http-api"
import { AgentApprovalsApi } from "./AgentApprovals.ts"
import { AgentSessionsApi } from "./AgentSessions.ts"
import { ApiKeysApi } from "./ApiKeys.ts"
import { InvitationsApi } from "./Invitations.ts"
import { ApprovalRulesApi } from "./ApprovalRules.ts"
import { AuditLogApi } from "./AuditLog.ts"
import { CanariesApi } from "./Canaries.ts"
import { ComparisonsApi, ReleasesApi } from "./Comparisons.ts"
import { DatasetsApi } from "./Datasets.ts"
import { DeletionsApi } from "./Deletions.ts"
import { EventsApi } from "./Events.ts"
import { ExecutionsApi } from "./Executions.ts"
import { FeedbackApi } from "./Feedback.ts"
import { FeedbackSettingsApi } from "./FeedbackSettings.ts"
import { GrantsApi } from "./Grants.ts"
import { HooksApi } from "./Hooks.ts"
import { ProblemFrame, requestParsing } from "./Middleware.ts"
import { NotificationEndpointsApi } from "./NotificationEndpoints.ts"
import { RedactionSettingsApi } from "./RedactionSettings.ts"
import { RetentionSettingsApi } from "./RetentionSettings.ts"
import { ReviewersApi } from "./Reviewers.ts"
import { RunsApi } from "./Runs.ts"
import { TasksApi } from "./Tasks.ts"
import { TelemetryDestinationsApi } from "./TelemetryDestinations.ts"

/**
 * The API: every operation with its scope, its schemas and each problem it can fail with. Routes, the OpenAPI document,
 * the typed client and the tests that cover every operation are derived from this one value.
 *
 * Naming: `group.endpoint` is the client's method. An endpoint is a short verb: `list create get update remove`, or the
 * domain's own. The operation id, which names the method in generated clients, is annotated: verb and noun, such as
 * `createApiKey`.
 */
export class Api extends HttpApi.make("countersign")
  .add(ApiKeysApi)
  .add(InvitationsApi)
  .add(TasksApi)
  .add(RunsApi)
  .add(DatasetsApi)
  .add(ComparisonsApi)
  .add(ReleasesApi)
  .add(CanariesApi)
  .add(FeedbackApi)
  .add(FeedbackSettingsApi)
  .add(AgentSessionsApi)
  .add(AgentApprovalsApi)
  .add(ExecutionsApi)
  .add(GrantsApi)
  .add(HooksApi)
  .add(ApprovalRulesApi)
  .add(ReviewersApi)
  .add(NotificationEndpointsApi)
  .add(EventsApi)
  .add(RedactionSettingsApi)
  .add(RetentionSettingsApi)
  .add(DeletionsApi)
  .add(AuditLogApi)
  .add(TelemetryDestinationsApi)
  .annotateMerge(requestParsing)
  // Responses are built from values that were validated on the way in, so their checks are not run again.
  .annotate(HttpApi.SuccessParseOptions, { disableChecks: true })
  .middleware(ProblemFrame)
  .annotateMerge(
    OpenApi.annotations({
      title: "Countersign",
      version: "1",
      summary: "Feedback, approvals and telemetry for AI tasks and agents.",
      description: [
        "Countersign records feedback on the answers of AI tasks, asks people to approve the steps of agents, and exports both as telemetry.",
        "Authenticate with an API key as a bearer token. Bodies are JSON. A request with a member or query parameter that the operation does not have gets 400 `INVALID_REQUEST`, which names it and the nearest known name; responses can gain members. Times are RFC 3339 in UTC. IDs are opaque.",
        "A schema cannot express some rules for bodies. A body is I-JSON (RFC 7493): UTF-8, without lone surrogates, without two members of the same name, and with numbers that a double can hold: integers exactly, fractions with at most 17 digits, neither too large nor too small, such as `1e400`. No text, and no member name, contains the character U+0000, which the database cannot store. A body has at most 64 levels of nesting, 100,000 values and 20,000 different member names. A body that breaks one of these rules gets 400 `INVALID_REQUEST`, or 413 if it is too large.",
        "Lists are newest first: pass `next_cursor` as `cursor` to get the next page. A page can hold fewer than `limit`: it ends at 256 KiB of content.",
        "Errors are `application/problem+json` (RFC 9457) with a stable `code`. Every response has the header `x-request-id`. Create calls accept an `idempotency-key`."
      ].join("\n\n"),
      license: { name: "MIT", identifier: "MIT" },
      servers: [{ url: "/", description: "The service that serves this document." }]
    })
  ) {}
