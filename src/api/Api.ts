import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { AgentApprovalsApi } from "./AgentApprovals.ts"
import { AgentSessionsApi } from "./AgentSessions.ts"
import { ApiKeysApi } from "./ApiKeys.ts"
import { ApprovalRulesApi } from "./ApprovalRules.ts"
import { AuditLogApi } from "./AuditLog.ts"
import { ComparisonsApi, ReleasesApi } from "./Comparisons.ts"
import { DatasetsApi } from "./Datasets.ts"
import { publishDocument } from "./publishDocument.ts"
import { FeedbackApi } from "./Feedback.ts"
import { ProblemFrame, collectFieldErrors } from "./Middleware.ts"
import { NotificationEndpointsApi } from "./NotificationEndpoints.ts"
import { TasksApi } from "./Tasks.ts"
import { TelemetryDestinationsApi } from "./TelemetryDestinations.ts"

/**
 * The contract: every operation with its scope, its shapes and each error it can raise. Routes, the OpenAPI document, the typed
 * client and the tests that walk it are all derived from this one value.
 *
 * Naming: `group.endpoint` is the client's method and the operation's id. An endpoint is a short verb: `list create get update
 * remove`, else the domain's own.
 */
export class Api extends HttpApi.make("countersign")
  .add(ApiKeysApi)
  .add(TasksApi)
  .add(DatasetsApi)
  .add(ComparisonsApi)
  .add(ReleasesApi)
  .add(FeedbackApi)
  .add(AgentSessionsApi)
  .add(AgentApprovalsApi)
  .add(ApprovalRulesApi)
  .add(NotificationEndpointsApi)
  .add(AuditLogApi)
  .add(TelemetryDestinationsApi)
  .annotate(HttpApi.ParseOptions, collectFieldErrors)
  // What services answer was checked when it came in; checking each id again on its way out buys nothing.
  .annotate(HttpApi.SuccessParseOptions, { disableChecks: true })
  .middleware(ProblemFrame)
  .annotateMerge(
    OpenApi.annotations({
      title: "Countersign",
      version: "1",
      description:
        "Feedback on task answers, telemetry export, and approvals with signed notifications, for teams that run AI tasks and agents.",
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a transform is given the document, by the type of any record
      transform: (document) => publishDocument(document as OpenApi.OpenAPISpec, endpointOf)
    })
  ) {}

/** An operation by its id. Its type is spelt out, since what it looks into is made with it. */
const endpointOf = (operationId: string): HttpApiEndpoint.Top | undefined => {
  const groups: Readonly<
    Record<string, { readonly endpoints: Readonly<Record<string, HttpApiEndpoint.Top>> }>
  > = Api.groups
  const [group = "", name = ""] = operationId.split(".")
  return groups[group]?.endpoints[name]
}

/** What `/openapi.json` answers and `openapi.json` in the repository holds; `/docs` shows the same. */
export const openApiDocument = (): OpenApi.OpenAPISpec => OpenApi.fromApi(Api)
