import { DateTime, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { describeFirst } from "../domain/describeIssue.ts"
import { documented } from "../domain/documented.ts"
import { ApprovalEventType } from "../domain/approvals/ApprovalEvent.ts"
import { DeliveryDetail, DeliveryRecord } from "../domain/delivery/DeliveryState.ts"
import { DeliveryId, EndpointId } from "../domain/Ids.ts"
import { NotificationEndpoint } from "../domain/delivery/NotificationEndpoint.ts"
import { timestamp, Timestamp } from "../domain/Time.ts"
import { Name, publicUrl } from "./Text.ts"
import { Authentication, requires } from "./Authorization.ts"
import { CredentialFree, FieldProblems, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import {
  EndpointDisabled,
  InvalidUrl,
  InvalidWebhookEvents,
  LimitReached,
  NotFound,
  NotReplayable,
  QueueFull,
  RateLimited,
  VerificationFailed
} from "./Problems.ts"

const Events = Schema.NonEmptyArray(ApprovalEventType)

const url = Schema.String.check(publicUrl).annotateKey({
  description: "HTTPS URL on a public host, without credentials, for example `https://example.com/webhooks`."
})

const signingSecret = Schema.String.annotateKey({
  description: "The signing secret: `whsec_` and base64. Only this response contains it; store it safely."
})

export const NewNotificationEndpoint = Schema.Struct({
  url,
  description: Schema.optionalKey(Schema.NullOr(Name)).annotateKey({
    description:
      "What the endpoint is for, such as `Orders team, production`: 1 to 200 visible characters. Default null: none."
  }),
  events: Schema.optionalKey(Events).annotateKey({
    description: "The event types to receive, at least one. Default: all but `approval.vote_recorded`."
  }),
  public_signature: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Whether deliveries also have an Ed25519 signature, `v1a` of Standard Webhooks, which the keys of `/.well-known/jwks.json` verify. Default false."
  })
}).annotate({ identifier: "NewNotificationEndpoint", description: "A webhook endpoint to create." })
export type NewNotificationEndpoint = typeof NewNotificationEndpoint.Type

export const CreatedNotificationEndpoint = Schema.Struct({
  endpoint: NotificationEndpoint.annotateKey({ description: "The endpoint." }),
  secret: signingSecret
}).annotate({
  identifier: "CreatedNotificationEndpoint",
  description: "A new webhook endpoint with its signing secret."
})

export const NotificationEndpoints = Schema.Struct({
  endpoints: Schema.Array(NotificationEndpoint)
    .check(documented({ maxItems: 50 }))
    .annotateKey({
      description: "All webhook endpoints, newest first. At most 50."
    }),
  email_notifier: Schema.Boolean.annotateKey({
    description:
      "Whether approval events are emailed: an SMTP server is configured, and a key that can decide approvals has an email address, a verified one if the installation requires that."
  })
}).annotate({ identifier: "NotificationEndpoints", description: "The organization's webhook endpoints." })

export const NotificationEndpointChange = Schema.Struct({
  description: Schema.optionalKey(Schema.NullOr(Name)).annotateKey({
    description: "What the endpoint is for: 1 to 200 visible characters, or null for none. Absent: unchanged."
  }),
  events: Schema.optionalKey(Events).annotateKey({
    description: "The event types to receive from now on, at least one. Absent: unchanged."
  }),
  public_signature: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "Whether deliveries also have an Ed25519 signature. Absent: unchanged."
  }),
  active: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Enables or disables the endpoint. A disabled endpoint gets no deliveries, and its queued deliveries fail. Enabling also undoes the effect of a 410 Gone response, and ends a cooldown. Absent: unchanged."
  })
})
  .annotate({
    description: "Changes to a webhook endpoint; at least one member. Its URL and secret cannot change."
  })
  .check(
    Schema.makeFilter(
      (change) =>
        Object.values(change).some((value) => value !== undefined) ||
        "Send at least one of description, events, public_signature and active",
      { toJsonSchema: () => [{ minProperties: 1 }, true] }
    )
  )
  .annotate({ identifier: "NotificationEndpointChange" })
export type NotificationEndpointChange = typeof NotificationEndpointChange.Type

export const NotificationDeliveries = Schema.Struct({
  deliveries: Schema.Array(DeliveryRecord)
    .check(documented({ maxItems: 50 }))
    .annotateKey({
      description: "The latest 50 deliveries, newest first."
    })
}).annotate({
  identifier: "NotificationDeliveries",
  description: "The latest deliveries of a webhook endpoint."
})

export const QueuedDelivery = Schema.Struct({
  queued: Schema.Literal(true).annotateKey({ description: "Always true." }),
  id: DeliveryId.annotateKey({ description: "The delivery's ID." })
}).annotate({ identifier: "QueuedDelivery", description: "A delivery that was queued again." })

export const ReplayWindow = Schema.Struct({
  since: timestamp("Replays failed deliveries that were created at this time or later."),
  until: Schema.optionalKey(Schema.NullOr(Timestamp)).annotateKey({
    description: "Replays failed deliveries that were created before this time. Default null: until now."
  })
})
  .annotate({ description: "The time window of the deliveries to replay." })
  .check(
    Schema.makeFilter(({ since, until }) =>
      until === undefined || until === null || DateTime.isLessThan(since, until)
        ? undefined
        : { path: ["until"], issue: "Expected a time after `since`" }
    )
  )
  .annotate({ identifier: "ReplayWindow" })
export type ReplayWindow = typeof ReplayWindow.Type

export const ReplayCounts = Schema.Struct({
  queued: Schema.Int.annotateKey({ description: "Deliveries that were queued again." }),
  skipped: Schema.Int.annotateKey({ description: "Deliveries that were not, because the queue is full." })
}).annotate({
  identifier: "ReplayCounts",
  description: "How many failed deliveries of the window were queued."
})

export const RotatedSecret = Schema.Struct({ secret: signingSecret }).annotate({
  identifier: "RotatedSecret",
  description: "The new signing secret."
})

export const TestDelivery = Schema.Struct({
  queued: Schema.Boolean.annotateKey({
    description: "False if the queue was full; the delivery is then recorded as failed."
  }),
  id: DeliveryId.annotateKey({ description: "The delivery's ID." })
}).annotate({ identifier: "TestDelivery", description: "The delivery of a test event." })
export type TestDelivery = typeof TestDelivery.Type

/** An invalid selection of events has its own code. */
const eventsProblem = FieldProblems.context({
  events: (errors) =>
    new InvalidWebhookEvents({ detail: `The event types are invalid: ${describeFirst(errors)}`, errors })
})

export class NotificationEndpointsApi extends HttpApiGroup.make("notificationEndpoints")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: NotificationEndpoints
    })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listNotificationEndpoints",
          summary: "List webhook endpoints",
          description:
            "Lists webhook endpoints with their delivery health, and whether reviewer email is configured."
        })
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewNotificationEndpoint,
      success: CreatedNotificationEndpoint.pipe(HttpApiSchema.status(201)),
      error: [InvalidWebhookEvents, InvalidUrl, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(CredentialFree)
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createNotificationEndpoint",
          summary: "Create a webhook endpoint",
          description:
            "Creates a webhook endpoint and returns its signing secret, which is not shown again. If the installation requires verified endpoints, the endpoint gets no events until `verifyNotificationEndpoint` has succeeded. An organization can have 50."
        })
      )
      .annotateMerge(eventsProblem),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }) },
      payload: NotificationEndpointChange,
      success: NotificationEndpoint,
      error: [InvalidWebhookEvents, NotFound]
    })
      .middleware(CredentialFree)
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "updateNotificationEndpoint",
          summary: "Update a webhook endpoint",
          description: "Changes the description or the event types of an endpoint, or enables or disables it."
        })
      )
      .annotateMerge(eventsProblem),
    HttpApiEndpoint.delete("remove", "/:id", {
      params: { id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }) },
      error: NotFound
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "removeNotificationEndpoint",
          summary: "Remove a webhook endpoint",
          description: "Removes the endpoint and its deliveries. Nothing more is sent to it."
        })
      ),
    HttpApiEndpoint.post("rotateSecret", "/:id/rotate-secret", {
      headers: idempotencyHeaders,
      params: { id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }) },
      success: RotatedSecret,
      error: NotFound
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "rotateNotificationEndpointSecret",
          summary: "Rotate a signing secret",
          description:
            "Returns a new signing secret, which is not shown again. For 24 hours deliveries are signed with the previous secret as well, so that receivers can change over. After two rotations within 24 hours the newest two secrets sign."
        })
      ),
    HttpApiEndpoint.post("test", "/:id/test", {
      headers: idempotencyHeaders,
      params: { id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }) },
      success: TestDelivery.pipe(HttpApiSchema.status(202)),
      error: [NotFound, RateLimited]
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "testNotificationEndpoint",
          summary: "Send a test event",
          description:
            "Queues an event of type `test`, with `approval` null, to this endpoint, whatever event types it selected. It ends a cooldown, so that the next delivery is sent at once. For a disabled endpoint the delivery is recorded as failed. Each endpoint has a limit of test events per minute."
        })
      ),
    HttpApiEndpoint.post("verify", "/:id/verify", {
      params: { id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }) },
      success: NotificationEndpoint,
      error: [NotFound, EndpointDisabled, RateLimited, VerificationFailed]
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "verifyNotificationEndpoint",
          summary: "Verify a webhook endpoint",
          description: [
            'Sends the endpoint a signed event of type `verification` once, and waits for the response. It verifies the endpoint if its status is 2xx and its body is `{"challenge": "…"}` with the `verification.challenge` of the event, or that value alone as text.',
            "If the installation requires verified endpoints, call it after you have configured the receiver with the signing secret: an unverified endpoint gets no events. A challenge is not sent to a disabled endpoint. The number of challenges per minute is limited for each organization, and challenges count within the rates of deliveries to a host and its network."
          ].join("\n\n")
        })
      ),
    HttpApiEndpoint.get("listDeliveries", "/:id/deliveries", {
      params: { id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }) },
      success: NotificationDeliveries,
      error: NotFound
    })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listNotificationDeliveries",
          summary: "List an endpoint's deliveries",
          description: "Lists the latest 50 deliveries of a webhook endpoint, newest first."
        })
      ),
    HttpApiEndpoint.get("getDelivery", "/:id/deliveries/:delivery_id", {
      params: {
        id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }),
        delivery_id: DeliveryId.annotateKey({ description: "The delivery's ID." })
      },
      success: DeliveryDetail,
      error: NotFound
    })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getNotificationDelivery",
          summary: "Get a delivery",
          description: "Returns one delivery with its latest 100 attempts, oldest first."
        })
      ),
    HttpApiEndpoint.post("replayDelivery", "/:id/deliveries/:delivery_id/replay", {
      params: {
        id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }),
        delivery_id: DeliveryId.annotateKey({ description: "The delivery's ID." })
      },
      success: QueuedDelivery,
      error: [NotFound, NotReplayable, QueueFull]
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replayNotificationDelivery",
          summary: "Replay a delivery",
          description:
            "Queues a failed delivery again, with the same event and ID and the full retry schedule. An endpoint's cooldown delays it; a test event or `PATCH` with `active` true ends the cooldown. Re-enable a disabled endpoint before replaying."
        })
      ),
    HttpApiEndpoint.post("replayDeliveries", "/:id/replay", {
      params: { id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }) },
      payload: ReplayWindow,
      success: ReplayCounts.pipe(HttpApiSchema.status(202)),
      error: NotFound
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replayNotificationDeliveries",
          summary: "Replay failed deliveries of a time window",
          description:
            "Queues every failed delivery that was created in the window, oldest first, until the queue is full; `skipped` counts the others. Delivery order is not guaranteed."
        })
      )
  )
  .prefix("/v1/notification-endpoints")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Notification endpoints",
      description:
        "Webhook endpoints receive approval events as signed HTTPS requests, with retries and replay. The webhooks section describes the requests."
    })
  ) {}
