import { DateTime, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ApprovalEventType } from "../domain/approvals/ApprovalEvent.ts"
import { DeliveryDetail, DeliveryRecord } from "../domain/delivery/DeliveryState.ts"
import { DeliveryId, EndpointId } from "../domain/Ids.ts"
import { NotificationEndpoint } from "../domain/delivery/NotificationEndpoint.ts"
import { Timestamp } from "../domain/Time.ts"
import { Authentication, requires } from "./Authorization.ts"
import { FieldProblems, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import {
  InvalidUrl,
  InvalidWebhookEvents,
  LimitReached,
  NotFound,
  NotReplayable,
  QueueFull
} from "./Problems.ts"

/** A selection of event types: at least one. Absent on creation it means all there are then. */
const Events = Schema.NonEmptyArray(ApprovalEventType)

/** What a new endpoint is made of. */
export const NewNotificationEndpoint = Schema.Struct({
  url: Schema.String,
  events: Schema.optionalKey(Events)
}).annotate({ identifier: "NewNotificationEndpoint" })
export type NewNotificationEndpoint = typeof NewNotificationEndpoint.Type

/** An endpoint and, this once, its signing secret. */
export const CreatedNotificationEndpoint = Schema.Struct({
  endpoint: NotificationEndpoint,
  secret: Schema.String
}).annotate({ identifier: "CreatedNotificationEndpoint" })

/** The organization's endpoints, and whether reviewers are reached by mail. */
export const NotificationEndpoints = Schema.Struct({
  endpoints: Schema.Array(NotificationEndpoint),
  email_notifier: Schema.Boolean
}).annotate({ identifier: "NotificationEndpoints" })

/** What is changed of an endpoint; at least one of the two. Its address and its secret stay. */
export const NotificationEndpointChange = Schema.Struct({
  /** Replaces the selection. */
  events: Schema.optionalKey(Events),
  /** While it is off, events make no deliveries for it, and what waits for it fails. On also ends what a 410 began. */
  active: Schema.optionalKey(Schema.Boolean)
})
  .check(
    Schema.makeFilter(
      ({ active, events }) =>
        active !== undefined || events !== undefined || "Name what is to change: events, active or both"
    )
  )
  .annotate({ identifier: "NotificationEndpointChange" })
export type NotificationEndpointChange = typeof NotificationEndpointChange.Type

/** An endpoint's latest 50 deliveries, newest first. */
export const NotificationDeliveries = Schema.Struct({
  deliveries: Schema.Array(DeliveryRecord)
}).annotate({ identifier: "NotificationDeliveries" })

/** A delivery that waits to be sent again. */
export const QueuedDelivery = Schema.Struct({
  queued: Schema.Literal(true),
  id: DeliveryId
}).annotate({ identifier: "QueuedDelivery" })

/** Which failed deliveries are queued again: those created from `since` on and before `until`, or until now. */
export const ReplayWindow = Schema.Struct({
  since: Timestamp,
  until: Schema.optionalKey(Schema.NullOr(Timestamp))
})
  .check(
    Schema.makeFilter(({ since, until }) =>
      until === undefined || until === null || DateTime.isLessThan(since, until)
        ? undefined
        : { path: ["until"], issue: "Expected a time after `since`" }
    )
  )
  .annotate({ identifier: "ReplayWindow" })
export type ReplayWindow = typeof ReplayWindow.Type

/** How many failed deliveries of the window were queued, and how many found no room. */
export const ReplayCounts = Schema.Struct({
  queued: Schema.Int,
  skipped: Schema.Int
}).annotate({ identifier: "ReplayCounts" })

/** A new signing secret, this once. */
export const RotatedSecret = Schema.Struct({ secret: Schema.String }).annotate({
  identifier: "RotatedSecret"
})

/** The delivery of a test event. `queued` is false where the queue was full: it is recorded as failed then. */
export const TestDelivery = Schema.Struct({
  queued: Schema.Boolean,
  id: DeliveryId
}).annotate({ identifier: "TestDelivery" })
export type TestDelivery = typeof TestDelivery.Type

/** A wrong selection of events has a code of its own. */
const eventsProblem = FieldProblems.context({
  events: (errors) => new InvalidWebhookEvents({ detail: "Name at least one supported event type", errors })
})

/** HTTPS receivers of approval events. */
export class NotificationEndpointsApi extends HttpApiGroup.make("notification_endpoints")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: NotificationEndpoints
    })
      .middleware(requires("org_config.read"))
      .annotate(OpenApi.Description, "The receivers, how they fare, and whether anybody is reached by mail."),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewNotificationEndpoint,
      success: CreatedNotificationEndpoint.pipe(HttpApiSchema.status(201)),
      error: [InvalidWebhookEvents, InvalidUrl, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "A receiver of the events it names. Its signing secret is answered this once. The URL must be public HTTPS."
      )
      .annotateMerge(eventsProblem),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: EndpointId },
      payload: NotificationEndpointChange,
      success: NotificationEndpoint,
      error: [InvalidWebhookEvents, NotFound]
    })
      .middleware(requires("org_config.write"))
      .annotate(OpenApi.Description, "Changes which events an endpoint is sent, or switches it on or off.")
      .annotateMerge(eventsProblem),
    HttpApiEndpoint.delete("remove", "/:id", {
      params: { id: EndpointId },
      error: NotFound
    })
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Removes the endpoint: nothing more is sent to it, and its deliveries are gone."
      ),
    HttpApiEndpoint.post("rotate_secret", "/:id/rotate-secret", {
      headers: idempotencyHeaders,
      params: { id: EndpointId },
      success: RotatedSecret,
      error: NotFound
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "A new signing secret, shown once. For 24 hours the one before it signs too, so that receivers can change over; of two rotations within them the newest two secrets sign."
      ),
    HttpApiEndpoint.post("test", "/:id/test", {
      headers: idempotencyHeaders,
      params: { id: EndpointId },
      success: TestDelivery.pipe(HttpApiSchema.status(202)),
      error: NotFound
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Sends an event of type `test`, its `approval` null, to this endpoint alone, whatever it subscribed to. An endpoint that is switched off is sent nothing: the delivery is recorded as failed and says so."
      ),
    HttpApiEndpoint.get("deliveries", "/:id/deliveries", {
      params: { id: EndpointId },
      success: NotificationDeliveries,
      error: NotFound
    })
      .middleware(requires("org_config.read"))
      .annotate(OpenApi.Description, "The latest 50 deliveries, newest first."),
    HttpApiEndpoint.get("delivery", "/:id/deliveries/:delivery", {
      params: { id: EndpointId, delivery: DeliveryId },
      success: DeliveryDetail,
      error: NotFound
    })
      .middleware(requires("org_config.read"))
      .annotate(
        OpenApi.Description,
        "With its latest 100 attempts, oldest first. `delivering` is known to the process that sends; other replicas say `pending` meanwhile."
      ),
    HttpApiEndpoint.post("replay", "/:id/deliveries/:delivery/replay", {
      params: { id: EndpointId, delivery: DeliveryId },
      success: QueuedDelivery,
      error: [NotFound, NotReplayable, QueueFull]
    })
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Queues a failed delivery again: the same event under the same id, after the endpoint's cooldown, with the whole retry schedule before it. Switch an endpoint on first that is off, or the delivery fails again, saying so."
      ),
    HttpApiEndpoint.post("replay_window", "/:id/replay", {
      params: { id: EndpointId },
      payload: ReplayWindow,
      success: ReplayCounts.pipe(HttpApiSchema.status(202)),
      error: NotFound
    })
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Queues every failed delivery that was created in the window, oldest first, up to the queue's capacity; `skipped` counts those it had no room for. Arrival in order is not promised."
      )
  )
  .prefix("/v1/notification-endpoints")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Notification endpoints",
      description: "Signed, retried, replayable notifications of approval events."
    })
  ) {}
