/** The console's operations on deliveries of webhook endpoints: one log over all endpoints, their health, and replays of many. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { approvalEventTypes } from "../../domain/approvals/ApprovalEvent.ts"
import { DeliveryAttempt } from "../../domain/delivery/DeliveryState.ts"
import { ApprovalId, DeliveryId, EndpointId, EventId, TelemetryDeliveryId } from "../../domain/Ids.ts"
import { TelemetryDelivery, TelemetryDeliveryStatus } from "../../domain/telemetry/TelemetryDestination.ts"
import { Timestamp } from "../../domain/Time.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { NotFound, RateLimited } from "../Problems.ts"

/** Deliveries per page of the log. */
export const DELIVERIES_PAGE = 50

/**
 * The most deliveries that one page of a filtered log examines: status and response are in no index, because they change with each attempt.
 * A page with fewer matches tells how far it has searched.
 */
export const MAX_EXAMINED_DELIVERIES = 50_000

/** The most deliveries that one request replays. */
export const MAX_REPLAYED_DELIVERIES = 500

/** The stored status of a delivery. */
export const LoggedDeliveryStatus = Schema.Literals(["pending", "delivered", "failed"])
export type LoggedDeliveryStatus = typeof LoggedDeliveryStatus.Type

/** The type of an event that is delivered. */
export const DeliveredEventType = Schema.Literals([...approvalEventTypes, "test"])
export type DeliveredEventType = typeof DeliveredEventType.Type

/** The status of the last response; 0: there was none. */
export const ResponseCode = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 599 }))

/** The filters of the log, all optional. */
export const deliveryFilter = {
  endpoint_id: Schema.optionalKey(EndpointId),
  status: Schema.optionalKey(LoggedDeliveryStatus),
  code: Schema.optionalKey(Schema.FiniteFromString.pipe(Schema.decodeTo(ResponseCode))),
  type: Schema.optionalKey(DeliveredEventType),
  /** Deliveries created at this time or later. */
  since: Schema.optionalKey(Timestamp),
  /** Deliveries created before this time. */
  until: Schema.optionalKey(Timestamp)
}
const DeliveryFilter = Schema.Struct(deliveryFilter)
export type DeliveryFilter = typeof DeliveryFilter.Type

/** A delivery in the log. */
export const LoggedDelivery = Schema.Struct({
  id: DeliveryId,
  endpoint_id: EndpointId,
  event_id: EventId,
  type: Schema.String,
  approval_id: Schema.NullOr(ApprovalId),
  /** The tool of the approval. Null without the scope `approvals.read`, and for a test event. */
  tool: Schema.NullOr(Schema.String),
  status: LoggedDeliveryStatus,
  attempts: Schema.Int,
  replays: Schema.Int,
  /** The HTTP status of the last response. Null if there was none. */
  status_code: Schema.NullOr(Schema.Int),
  last_error: Schema.NullOr(Schema.String),
  created_at: Timestamp,
  finished_at: Schema.NullOr(Timestamp),
  /** When the next attempt is due, at the end of a cooldown at the earliest. Null unless it is pending. */
  next_attempt_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "LoggedDelivery" })
export type LoggedDelivery = typeof LoggedDelivery.Type

/** A page of the log, newest first. */
export const DeliveryLogPage = Schema.Struct({
  deliveries: Schema.Array(LoggedDelivery),
  /** Where the next page continues. Null if there is none. */
  next_cursor: Schema.NullOr(DeliveryId),
  /** How far back the page has searched, if it ended before it was full. */
  searched_to: Schema.NullOr(Timestamp)
}).annotate({ identifier: "DeliveryLogPage" })
export type DeliveryLogPage = typeof DeliveryLogPage.Type

/** A delivery with its attempts and its event. */
export const LoggedDeliveryDetail = Schema.Struct({
  ...LoggedDelivery.fields,
  /** The latest hundred, oldest first. */
  attempt_log: Schema.Array(DeliveryAttempt),
  /** The JSON text that is signed and sent. Null without the scope `approvals.read`, and when it was removed by retention. */
  event_json: Schema.NullOr(Schema.String),
  /** The headers of the last attempt, without its signatures. */
  headers: Schema.Array(Schema.Struct({ name: Schema.String, value: Schema.String }))
}).annotate({ identifier: "LoggedDeliveryDetail" })
export type LoggedDeliveryDetail = typeof LoggedDeliveryDetail.Type

/** A delivery of an endpoint. */
export const DeliveryOfEndpoint = Schema.Struct({ endpoint_id: EndpointId, delivery_id: DeliveryId })
export type DeliveryOfEndpoint = typeof DeliveryOfEndpoint.Type

/** The result of replaying a delivery. */
export const ReplayOutcome = Schema.Literals([
  "queued",
  "not_failed",
  "not_found",
  "queue_full",
  "endpoint_disabled"
])
export type ReplayOutcome = typeof ReplayOutcome.Type

export const ReplayResult = Schema.Struct({ ...DeliveryOfEndpoint.fields, outcome: ReplayOutcome }).annotate({
  identifier: "ReplayResult"
})
export type ReplayResult = typeof ReplayResult.Type

/** The failed deliveries of an endpoint within a period. `is_complete`: whether all of them were examined, or the newest `MAX_EXAMINED_DELIVERIES`. */
export const FailedCount = Schema.Struct({ failed: Schema.Int, is_complete: Schema.Boolean }).annotate({
  identifier: "FailedCount"
})
export type FailedCount = typeof FailedCount.Type

/** A page of the batches that the telemetry collector gets, newest first. */
export const BatchLogPage = Schema.Struct({
  batches: Schema.Array(TelemetryDelivery),
  /** Where the next page continues. Null if there is none. */
  next_cursor: Schema.NullOr(TelemetryDeliveryId)
}).annotate({ identifier: "BatchLogPage" })
export type BatchLogPage = typeof BatchLogPage.Type

/** Hours of the line of an endpoint in the list. */
export const ENDPOINT_LINE_HOURS = 24

/** How an endpoint has fared. Figures count at most `MAX_HOURLY_SAMPLE` attempts of each hour. */
export const EndpointHealth = Schema.Struct({
  endpoint_id: EndpointId,
  /** Attempts by the hour in which their delivery was created, oldest first. */
  hours: Schema.Array(Schema.Struct({ delivered: Schema.Int, failed: Schema.Int })),
  /** When a delivery succeeded last, among the newest thousand. */
  last_success_at: Schema.NullOr(Timestamp),
  /** When its attempts began to fail. Null if the last attempt succeeded. */
  failing_since: Schema.NullOr(Timestamp),
  /** Why the last attempt failed. Null if it succeeded. */
  last_error: Schema.NullOr(Schema.String)
}).annotate({ identifier: "EndpointHealth" })
export type EndpointHealth = typeof EndpointHealth.Type

/**
 * The most attempts of an hour that are counted: the page reads the figures of up to 50 endpoints every few seconds, and a share of 1,200
 * attempts is exact enough.
 */
export const MAX_HOURLY_SAMPLE = 50

/** Deliveries of all webhook endpoints. */
export class ConsoleDeliveriesApi extends HttpApiGroup.make("deliveries")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        ...deliveryFilter,
        cursor: Schema.optionalKey(DeliveryId)
      },
      success: DeliveryLogPage
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.get("batches", "/batches", {
      query: {
        status: Schema.optionalKey(TelemetryDeliveryStatus),
        cursor: Schema.optionalKey(TelemetryDeliveryId)
      },
      success: BatchLogPage
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.get("health", "/health", {
      success: Schema.Struct({ endpoints: Schema.Array(EndpointHealth) })
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.get("get", "/:endpoint_id/:delivery_id", {
      params: DeliveryOfEndpoint.fields,
      success: LoggedDeliveryDetail,
      error: NotFound
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.get("countFailed", "/:endpoint_id/failed", {
      params: { endpoint_id: EndpointId },
      query: { since: Timestamp, until: Schema.optionalKey(Timestamp) },
      success: FailedCount
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.post("retryNow", "/:endpoint_id/retry-now", {
      params: { endpoint_id: EndpointId },
      success: HttpApiSchema.NoContent,
      error: [NotFound, RateLimited]
    }).middleware(requires("org_config.write")),
    // Repeating a request is safe: a queued delivery is no longer failed.
    HttpApiEndpoint.post("replay", "/replay", {
      payload: Schema.Struct({
        deliveries: Schema.Array(DeliveryOfEndpoint).check(
          Schema.isMinLength(1),
          Schema.isMaxLength(MAX_REPLAYED_DELIVERIES)
        )
      }),
      success: Schema.Struct({ results: Schema.Array(ReplayResult) })
    }).middleware(requires("org_config.write"))
  )
  .prefix("/console/delivery-log")
  .middleware(RequestBody)
  .middleware(Authentication) {}
