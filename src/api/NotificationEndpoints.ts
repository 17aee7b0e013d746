import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ApprovalEventType } from "../domain/ApprovalEvent.ts"
import { EndpointId } from "../domain/Ids.ts"
import { NotificationEndpoint } from "../domain/NotificationEndpoint.ts"
import { Authentication, requires } from "./Authorization.ts"
import { FieldProblems, Idempotent, idempotencyHeaders, RequestBody } from "./Frame.ts"
import { InvalidUrl, InvalidWebhookEvents, LimitReached, NotFound } from "./Problems.ts"

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

/** A wrong selection of events has a code of its own. */
const eventsProblem = FieldProblems.context({
  events: (errors) => new InvalidWebhookEvents({ detail: "Name at least one supported event type", errors })
})

/** HTTPS receivers of approval events. */
export class NotificationEndpointsApi extends HttpApiGroup.make("notification_endpoints")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: NotificationEndpoints
    }).middleware(requires("org_config.read")),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewNotificationEndpoint,
      success: CreatedNotificationEndpoint.pipe(HttpApiSchema.status(201)),
      error: [InvalidWebhookEvents, InvalidUrl, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotateMerge(eventsProblem),
    HttpApiEndpoint.delete("remove", "/:id", {
      params: { id: EndpointId },
      error: NotFound
    }).middleware(requires("org_config.write"))
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
