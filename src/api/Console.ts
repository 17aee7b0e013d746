/**
 * The console's own operations, beside the public API. They are not part of it: the console's page and the service come from one build, and
 * other clients use API keys.
 */
import { ByteSize, Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { AgentSession, OutcomeStatus, StepDecision } from "../domain/approvals/AgentSession.ts"
import { Approval } from "../domain/approvals/Approval.ts"
import { ApprovalRule } from "../domain/approvals/ApprovalRule.ts"
import { Example } from "../domain/tasks/Dataset.ts"
import { ApprovalId, ConsoleSessionId, DatasetId, RuleId, StepId } from "../domain/Ids.ts"
import { Actor } from "../domain/identity/Principal.ts"
import { Scope } from "../domain/identity/Scope.ts"
import { Timestamp } from "../domain/Time.ts"
import { ConsoleExportsApi } from "./console/Exports.ts"
import { Authentication, requires } from "./Authorization.ts"
import { ConsoleDeliveriesApi } from "./console/Deliveries.ts"
import { ConsoleSearchApi } from "./console/Search.ts"
import { ConsoleAgreementApi } from "./console/AgreementHistory.ts"
import { ConsoleAuditApi } from "./console/AuditRows.ts"
import { ConsoleFeedbackApi } from "./console/FeedbackRows.ts"
import { ConsoleReviewerAnswersApi } from "./console/ReviewerAnswers.ts"
import { ConsoleRunsApi } from "./console/RunRows.ts"
import { ConsoleTasksApi } from "./console/TaskRows.ts"
import { ConsolePlaygroundApi } from "./console/Playground.ts"
import { DecideManyRequest } from "./DecisionBatch.ts"
import { BodyLimit, ProblemFrame, RequestBody, requestParsing } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { problem } from "./Problem.ts"
import { AddressNotAllowed, InsufficientScope, InvalidApiKey, NotFound, RateLimited } from "./Problems.ts"
import { CONSOLE_PATH } from "./console/consolePath.ts"
import { ConsoleClosedApprovalsApi } from "./console/ClosedApprovals.ts"
import { ConsoleInvitationApi } from "./console/Invitation.ts"
import { InboxApproval } from "./console/InboxApproval.ts"
import { ConsolePeopleApi } from "./console/People.ts"
import { ConsoleOverviewApi } from "./console/Overview.ts"
import { PendingCount } from "./console/PendingCount.ts"

export { CONSOLE_PATH } from "./console/consolePath.ts"
export { InboxApproval, InboxLine } from "./console/InboxApproval.ts"

/** Path prefix under which a signed-in browser reaches the operations of the public API. */
export const CONSOLE_API_PATH = "/console/api"

export class CrossSite extends problem<CrossSite>()(
  "CROSS_SITE",
  403,
  "Cross-site request",
  "The request was made by a page of another site."
) {}

/** The key, and the session cookie, must not cross a network unencrypted. */
export class InsecureAddress extends problem<InsecureAddress>()(
  "INSECURE_ADDRESS",
  403,
  "HTTPS required",
  "Signing in requires HTTPS, except from the machine that runs the service."
) {}

/** The signed-in key with its scopes, which determine the pages and actions to show. */
export const ConsoleSession = Schema.Struct({
  id: ConsoleSessionId,
  organization: Schema.String,
  key: Actor,
  scopes: Schema.Array(Scope),
  groups: Schema.Array(Schema.String),
  expires_at: Timestamp,
  /** The service's time. Countdowns on the page use it instead of the device's clock. */
  now: Timestamp
}).annotate({ identifier: "ConsoleSession" })
export type ConsoleSession = typeof ConsoleSession.Type

/** Ways to sign in besides an API key. */
export const SignInWays = Schema.Struct({
  /** The name of the identity provider; null: single sign-on is off. */
  single_sign_on: Schema.NullOr(Schema.String)
}).annotate({ identifier: "SignInWays" })
export type SignInWays = typeof SignInWays.Type

/** Sign in and out. */
export class ConsoleSessionApi extends HttpApiGroup.make("session")
  .add(
    HttpApiEndpoint.post("sign_in", "/", {
      payload: Schema.Struct({ key: Schema.String.check(Schema.isMaxLength(200)) }),
      success: ConsoleSession,
      error: [InvalidApiKey, AddressNotAllowed, InsecureAddress, RateLimited]
      // This route needs no key, so a large body is rejected before it is read.
    }).annotate(BodyLimit, ByteSize.kibibytes(4)),
    // Null means not signed in. A page that has just been opened asks for this, so it is not an error.
    HttpApiEndpoint.get("get", "/", { success: Schema.NullOr(ConsoleSession), error: RateLimited }),
    HttpApiEndpoint.get("ways", "/ways", { success: SignInWays }),
    HttpApiEndpoint.delete("sign_out", "/", { error: RateLimited })
  )
  .prefix(`${CONSOLE_PATH}/session`)
  .middleware(RequestBody) {}

/** A signed-in browser, in the list of sessions. */
export const SignIn = Schema.Struct({
  id: ConsoleSessionId,
  key: Actor,
  /** The rights of the key: only who has them all can end the session. */
  scopes: Schema.Array(Scope),
  groups: Schema.Array(Schema.String),
  created_at: Timestamp,
  last_active_at: Timestamp,
  expires_at: Timestamp,
  /** The browser and its system, such as `Firefox on Linux`. Null if unknown. */
  browser: Schema.NullOr(Schema.String),
  /** The address that it signed in from. */
  address: Schema.NullOr(Schema.String)
}).annotate({ identifier: "SignIn" })
export type SignIn = typeof SignIn.Type

/**
 * The open sessions of the signed-in key or, with `keys.write`, of the whole organization. Ending those of
 * another key needs its rights, too.
 */
export class ConsoleSignInsApi extends HttpApiGroup.make("sign_ins")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        ...pageQuery(ConsoleSessionId),
        of: Schema.optionalKey(Schema.Literals(["key", "organization"]))
      },
      success: page("sessions", SignIn, ConsoleSessionId),
      error: InsufficientScope
    }),
    HttpApiEndpoint.delete("end", "/:id", {
      params: { id: ConsoleSessionId },
      error: [InsufficientScope, NotFound]
    })
  )
  .prefix(`${CONSOLE_PATH}/sign-ins`)
  .middleware(RequestBody)
  .middleware(Authentication) {}

/**
 * The header of requests that the page makes while its user is idle, such as an automatic refresh. They do not keep the
 * session open.
 */
export const IDLE_HEADER = "x-countersign-idle"

/**
 * The query parameter with the session that a page belongs to. If the browser is signed in with another one by then, the request is
 * refused. For streams: `EventSource` reconnects by itself, with the cookie of that time.
 */
export const SESSION_PARAMETER = "console_session"

/**
 * The response header with the API key of the session that made the request. A page discards a response to another key: the browser was
 * signed in with it meanwhile, perhaps in another organization.
 */
export const KEY_HEADER = "x-countersign-key"

/** Approvals per page of the inbox, a few hundred bytes each. The first page is small, because a person waits for it. */
export const INBOX_PAGE = 1_000
export const INBOX_FIRST_PAGE = 100

/** Pending approvals, by deadline. */
export const Inbox = Schema.Struct({
  approvals: Schema.Array(InboxApproval),
  /** Whether more approvals follow the last one. */
  more: Schema.Boolean
}).annotate({ identifier: "Inbox" })
export type Inbox = typeof Inbox.Type

/** An approval, opened from the inbox. */
export const InboxItem = Schema.Struct({
  approval: Approval,
  /**
   * Whether the signed-in key, or a key that made it, submitted the step and its rule does not allow self-approval:
   * deciding gets `SELF_APPROVAL`.
   */
  own_request: Schema.Boolean
}).annotate({ identifier: "InboxItem" })
export type InboxItem = typeof InboxItem.Type

/** The most earlier steps of the session that the context of an approval lists. */
export const MAX_EARLIER_STEPS = 20

/** The largest arguments and results of earlier steps that are read: more than a person reads of each. */
export const MAX_CONTEXT_BYTES = 16 * 1024

/** The outcome of a tool, as the agent reported it. */
export const ContextOutcome = Schema.Struct({
  status: OutcomeStatus,
  /** JSON text. Null: there is none, or it is larger than `MAX_CONTEXT_BYTES`. */
  result_json: Schema.NullOr(Schema.String),
  /** Whether there is a result that is too large to be read. */
  result_too_large: Schema.Boolean,
  error: Schema.NullOr(Schema.String),
  occurred_at: Timestamp
}).annotate({ identifier: "ContextOutcome" })
export type ContextOutcome = typeof ContextOutcome.Type

/** A step that the session submitted before the one to decide. */
export const EarlierStep = Schema.Struct({
  step_id: StepId,
  tool: Schema.String,
  requested_at: Timestamp,
  decision: StepDecision,
  /** JSON text. Null: there are none, or they are larger than `MAX_CONTEXT_BYTES`. */
  arguments_json: Schema.NullOr(Schema.String),
  arguments_too_large: Schema.Boolean,
  outcome: Schema.NullOr(ContextOutcome)
}).annotate({ identifier: "EarlierStep" })
export type EarlierStep = typeof EarlierStep.Type

/** The most decisions about a tool that its history counts. */
export const MAX_TOOL_DECISIONS = 20

/** How people decided the newest other approvals of a tool. */
export const ToolHistory = Schema.Struct({
  /** At most `MAX_TOOL_DECISIONS`. */
  decisions: Schema.Int,
  approved: Schema.Int,
  /** The median time from the request to the decision. Null without decisions. */
  median_seconds: Schema.NullOr(Schema.Finite)
}).annotate({ identifier: "ToolHistory" })
export type ToolHistory = typeof ToolHistory.Type

/** What surrounds a step that a person decides: who asks, why a person is asked, for whom, and what happened before. */
export const ApprovalContext = Schema.Struct({
  /** The key that submitted the step. */
  requested_by: Actor,
  /** Why a person decides: the reason of the rule. Null if the step is no longer stored. */
  reason: Schema.NullOr(Schema.String),
  rule_id: Schema.NullOr(RuleId),
  /** The place of the rule in the current list, 1 for the first. Null: no rule matched, or the list no longer has it. */
  rule_number: Schema.NullOr(Schema.Int),
  /** A rule that the tool seems to match and does not: by look-alike letters or, if no rule matches, by its spelling. */
  similar_rule: Schema.NullOr(
    Schema.Struct({
      id: RuleId,
      number: Schema.Int,
      /** The tool as it reads if only its letters pretend, else the pattern of the rule. */
      tool: Schema.String,
      kind: Schema.Literals(["look_alike", "spelling"])
    })
  ),
  /** The rules with conditions that are for such a step, up to the one that decided, as the list is now. */
  conditional_rules: Schema.Array(
    Schema.Struct({
      id: RuleId,
      number: Schema.Int,
      effect: ApprovalRule.fields.effect,
      when: ApprovalRule.fields.when
    })
  ),
  tool_history: ToolHistory,
  /** Null without the scope `sessions.read`. */
  session: Schema.NullOr(
    Schema.Struct({
      metadata: AgentSession.fields.metadata,
      /** The outcome of the tool. Null if it was not executed, or not reported yet. */
      outcome: Schema.NullOr(ContextOutcome),
      /** The newest `MAX_EARLIER_STEPS`, oldest first. */
      earlier_steps: Schema.Array(EarlierStep),
      /** Whether the session has earlier steps than these. */
      more: Schema.Boolean
    })
  )
}).annotate({ identifier: "ApprovalContext" })
export type ApprovalContext = typeof ApprovalContext.Type

/** The largest arguments that are read to compare approvals: more than a person reads of many approvals. */
export const MAX_COMPARED_BYTES = 16 * 1024

/** The parts of an approval that a person compares before deciding many. */
export const ComparedItem = Schema.Struct({
  approval_id: ApprovalId,
  /** As in `InboxItem`. */
  own_request: Schema.Boolean,
  /** The key that submitted the step. */
  requested_by: Actor,
  /** Size of the arguments as JSON text; 0: the agent gave none. */
  arguments_bytes: Schema.Int,
  /** The arguments as JSON text. Null: there are none, or they are larger than `MAX_COMPARED_BYTES`. */
  arguments_json: Schema.NullOr(Schema.String)
}).annotate({ identifier: "ComparedItem" })
export type ComparedItem = typeof ComparedItem.Type

/** How often the stream of the inbox sends a `ping` event, in milliseconds. A page that misses two in a row is no longer connected. */
export const INBOX_PING_MS = 10_000

/** The inbox and the stream of its changes. */
export class ConsoleInboxApi extends HttpApiGroup.make("inbox")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { after: Schema.optionalKey(Timestamp), after_id: Schema.optionalKey(ApprovalId) },
      success: Inbox
    }).middleware(requires("approvals.read")),
    HttpApiEndpoint.get("get", "/approvals/:id", {
      params: { id: ApprovalId },
      success: InboxItem,
      error: NotFound
    }).middleware(requires("approvals.read")),
    HttpApiEndpoint.get("context", "/approvals/:id/context", {
      params: { id: ApprovalId },
      success: ApprovalContext,
      error: NotFound
    }).middleware(requires("approvals.read")),
    // Approvals that do not exist are left out.
    HttpApiEndpoint.post("compare", "/compare", {
      payload: Schema.Struct({ approval_ids: DecideManyRequest.fields.approval_ids }),
      success: Schema.Struct({ items: Schema.Array(ComparedItem) })
    }).middleware(requires("approvals.read")),
    HttpApiEndpoint.get("count", "/count", { success: PendingCount }).middleware(requires("approvals.read")),
    HttpApiEndpoint.get("stream", "/stream", {
      query: { [SESSION_PARAMETER]: Schema.optionalKey(ConsoleSessionId) },
      success: HttpApiSchema.StreamSse({ data: InboxApproval })
    }).middleware(requires("approvals.read"))
  )
  .prefix(`${CONSOLE_PATH}/inbox`)
  .middleware(RequestBody)
  .middleware(Authentication) {}

/** Delivery results of one destination in one hour. */
export const HealthBucket = Schema.Struct({
  /** Start of the hour. */
  at: Timestamp,
  /** Attempts that succeeded. */
  delivered: Schema.Int,
  failed: Schema.Int,
  /** Median and 95th percentile of the duration of attempts, in milliseconds; null if there were none. */
  median_ms: Schema.NullOr(Schema.Int),
  slow_ms: Schema.NullOr(Schema.Int)
}).annotate({ identifier: "HealthBucket" })
export type HealthBucket = typeof HealthBucket.Type

/** Hours of health to show. */
export const HEALTH_HOURS = 48

/** Delivery health of webhook endpoints and of the telemetry destination. */
export class ConsoleHealthApi extends HttpApiGroup.make("health")
  .add(
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: Schema.String.check(Schema.isPattern(/^(nep|tel)_[0-9a-f]{32}$/u)) },
      success: Schema.Struct({ buckets: Schema.Array(HealthBucket) })
    }).middleware(requires("org_config.read"))
  )
  .prefix(`${CONSOLE_PATH}/health`)
  .middleware(RequestBody)
  .middleware(Authentication) {}

/** Most differences of two versions to return. */
export const MOST_CHANGES = 100

/** One difference of two versions: an example was added (`before` is null), removed (`after` is null) or replaced. */
export const DatasetChange = Schema.Struct({
  before: Schema.NullOr(Example),
  after: Schema.NullOr(Example)
}).annotate({ identifier: "DatasetChange" })
export type DatasetChange = typeof DatasetChange.Type

/** The differences of a version from an older one. */
export const DatasetChanges = Schema.Struct({
  added: Schema.Int,
  replaced: Schema.Int,
  removed: Schema.Int,
  /** The newest differences, at most `MOST_CHANGES`. */
  changes: Schema.Array(DatasetChange)
}).annotate({ identifier: "DatasetChanges" })
export type DatasetChanges = typeof DatasetChanges.Type

/** Differences of two versions of a task's dataset. */
export class ConsoleDatasetsApi extends HttpApiGroup.make("dataset_changes")
  .add(
    HttpApiEndpoint.get("get", "/:id/changes", {
      params: { id: DatasetId },
      /** An older version of the same task. */
      query: { since: DatasetId },
      success: DatasetChanges,
      error: NotFound
    }).middleware(requires("datasets.read"))
  )
  .prefix(`${CONSOLE_PATH}/datasets`)
  .middleware(RequestBody)
  .middleware(Authentication) {}

/** The console's own operations. */
export class ConsoleApi extends HttpApi.make("countersign-console")
  .add(ConsoleSessionApi)
  .add(ConsoleSignInsApi)
  .add(ConsoleInvitationApi)
  .add(ConsoleInboxApi)
  .add(ConsoleHealthApi)
  .add(ConsoleDeliveriesApi)
  .add(ConsoleDatasetsApi)
  .add(ConsoleSearchApi)
  .add(ConsoleOverviewApi)
  .add(ConsoleExportsApi)
  .add(ConsoleAgreementApi)
  .add(ConsoleFeedbackApi)
  .add(ConsoleClosedApprovalsApi)
  .add(ConsoleAuditApi)
  .add(ConsoleReviewerAnswersApi)
  .add(ConsoleRunsApi)
  .add(ConsolePeopleApi)
  .add(ConsoleTasksApi)
  .add(ConsolePlaygroundApi)
  .annotateMerge(requestParsing)
  .middleware(ProblemFrame) {}
