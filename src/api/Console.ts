/**
 * What the console's page asks of its service beside the contract. It is no part of the contract: the page and the service come
 * from one build, and other clients have keys.
 */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { Approval } from "../domain/approvals/Approval.ts"
import { Example } from "../domain/tasks/Dataset.ts"
import { ApprovalId, DatasetId } from "../domain/Ids.ts"
import { Actor } from "../domain/identity/Principal.ts"
import { Scope } from "../domain/identity/Scope.ts"
import { Timestamp } from "../domain/Time.ts"
import { Authentication, requires } from "./Authorization.ts"
import { ProblemFrame, collectFieldErrors, RequestBody } from "./Middleware.ts"
import { problem } from "./Problem.ts"
import { InvalidApiKey, NotFound, RateLimited } from "./Problems.ts"
import { ApprovalSnapshot } from "./SessionStream.ts"

/** Where the console is. */
export const CONSOLE_PATH = "/console"

/** Where the operations of the contract are for who signed in: the same paths behind this one. */
export const CONSOLE_API_PATH = "/console/api"

/** Another site's page made the browser ask. */
export class CrossSite extends problem<CrossSite>()(
  "CROSS_SITE",
  403,
  "The request comes from another site"
) {}

/** A key, and the cookie made of it, must not travel where others on the network can read them. */
export class InsecureAddress extends problem<InsecureAddress>()(
  "INSECURE_ADDRESS",
  403,
  "Signing in asks for https, or for this machine"
) {}

/** Who is signed in, and what the page may offer. */
export const ConsoleSession = Schema.Struct({
  organization: Schema.String,
  key: Actor,
  scopes: Schema.Array(Scope),
  expires_at: Timestamp,
  /** The service's time: what counts down on a page goes by it, not by the clock of the device. */
  now: Timestamp
}).annotate({ identifier: "ConsoleSession" })
export type ConsoleSession = typeof ConsoleSession.Type

/** Signing in and out. */
export class ConsoleSessionApi extends HttpApiGroup.make("session")
  .add(
    HttpApiEndpoint.post("sign_in", "/", {
      payload: Schema.Struct({ key: Schema.String.check(Schema.isMaxLength(200)) }),
      success: ConsoleSession,
      error: [InvalidApiKey, InsecureAddress, RateLimited]
    }),
    // Null: nobody is signed in, which a page that has just been opened may ask without it being a fault.
    HttpApiEndpoint.get("get", "/", { success: Schema.NullOr(ConsoleSession) }),
    HttpApiEndpoint.delete("sign_out", "/", {})
  )
  .prefix(`${CONSOLE_PATH}/session`)
  .middleware(RequestBody) {}

/** The most approvals of one page: a few hundred bytes each. The first is what somebody waits to see, so it is small. */
export const INBOX_PAGE = 1_000
export const INBOX_FIRST_PAGE = 100

/** What waits for a person, in the order in which it closes. */
export const Inbox = Schema.Struct({
  approvals: Schema.Array(ApprovalSnapshot),
  /** Whether others close after the last of these. */
  more: Schema.Boolean
}).annotate({ identifier: "Inbox" })
export type Inbox = typeof Inbox.Type

/** An approval as the inbox opens it. */
export const InboxItem = Schema.Struct({
  approval: Approval,
  /** Whether who is signed in asked for the step, and its rule does not let them decide it: `SELF_APPROVAL`. */
  own_request: Schema.Boolean
}).annotate({ identifier: "InboxItem" })
export type InboxItem = typeof InboxItem.Type

/** The inbox, and word of what changes in it. */
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
    HttpApiEndpoint.get("stream", "/stream", {
      success: HttpApiSchema.StreamSse({ data: ApprovalSnapshot })
    }).middleware(requires("approvals.read"))
  )
  .prefix(`${CONSOLE_PATH}/inbox`)
  .middleware(RequestBody)
  .middleware(Authentication) {}

/** How sending to a destination went in one stretch of time. */
export const HealthBucket = Schema.Struct({
  /** When the stretch begins; each is an hour. */
  at: Timestamp,
  /** Attempts that the receiver took. */
  delivered: Schema.Int,
  failed: Schema.Int,
  /** Of the attempts, the duration that half are within, and that 95 of 100 are within; null where there was none. */
  median_ms: Schema.NullOr(Schema.Int),
  slow_ms: Schema.NullOr(Schema.Int)
}).annotate({ identifier: "HealthBucket" })
export type HealthBucket = typeof HealthBucket.Type

/** The hours that a destination's health is shown for. */
export const HEALTH_HOURS = 48

/** How destinations fare: notification endpoints and the telemetry destination alike. */
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

/** The most differences of two versions that are told at once. */
export const MOST_CHANGES = 100

/** One difference of two versions: without `before` an example was added, without `after` removed, with both it took the other's place. */
export const DatasetChange = Schema.Struct({
  before: Schema.NullOr(Example),
  after: Schema.NullOr(Example)
}).annotate({ identifier: "DatasetChange" })
export type DatasetChange = typeof DatasetChange.Type

/** What a version changed of its base. */
export const DatasetChanges = Schema.Struct({
  added: Schema.Int,
  replaced: Schema.Int,
  removed: Schema.Int,
  /** The newest of them, at most `MOST_CHANGES`. */
  changes: Schema.Array(DatasetChange)
}).annotate({ identifier: "DatasetChanges" })
export type DatasetChanges = typeof DatasetChanges.Type

/** How two versions of a task's dataset differ. */
export class ConsoleDatasetsApi extends HttpApiGroup.make("dataset_changes")
  .add(
    HttpApiEndpoint.get("get", "/:id/changes", {
      params: { id: DatasetId },
      /** The older version, of the same task. */
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
  .add(ConsoleInboxApi)
  .add(ConsoleHealthApi)
  .add(ConsoleDatasetsApi)
  .annotate(HttpApi.ParseOptions, collectFieldErrors)
  .middleware(ProblemFrame) {}
