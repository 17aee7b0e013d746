import { Schema } from "effect"
import { ApprovalEventType } from "../approvals/ApprovalEvent.ts"
import { DeliveryId, EndpointId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const EndpointDisabledBy = Schema.Struct({
  at: timestamp("When the endpoint was disabled."),
  by: Schema.NullOr(Actor).annotateKey({
    description: "The API key that disabled it. Null: the service, because the endpoint answered 410 Gone."
  }),
  delivery_id: Schema.NullOr(DeliveryId).annotateKey({
    description: "The delivery that it answered with 410 Gone. Null if an API key disabled it."
  })
}).annotate({ identifier: "EndpointDisabledBy", description: "Who disabled a webhook endpoint, and when." })
export type EndpointDisabledBy = typeof EndpointDisabledBy.Type

export const NotificationEndpoint = Schema.Struct({
  id: EndpointId.annotateKey({ description: "The webhook endpoint's ID." }),
  description: Schema.NullOr(Schema.String).annotateKey({
    description: "What the endpoint is for, as people recognize it. Null if it has no description."
  }),
  events: Schema.Array(ApprovalEventType).annotateKey({
    description: "The event types that it receives, as selected. Event types added later are not included."
  }),
  active: Schema.Boolean.annotateKey({
    description: "Whether events are delivered to it. A 410 Gone response disables it."
  }),
  public_signature: Schema.Boolean.annotateKey({
    description: "Whether its deliveries also have a signature that the service's public keys verify."
  }),
  disabled: Schema.NullOr(EndpointDisabledBy).annotateKey({
    description: "Who disabled it, and when. Null while it is active."
  }),
  verified_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it last answered a challenge. Null if it never did."
  }),
  awaits_verification: Schema.Boolean.annotateKey({
    description:
      "Whether it gets no events until it answers a challenge: this installation requires it, and it has not answered one."
  }),
  created_at: timestamp("When the endpoint was created."),
  created_by: Actor.annotateKey({ description: "The API key that created it." }),
  url_hint: Schema.String.annotateKey({
    description: "Scheme and host of its URL, with the path masked. The URL itself is never returned."
  }),
  cooldown_until: Schema.NullOr(Timestamp).annotateKey({
    description:
      "Nothing is sent to it until then, because too many attempts failed. Null if it is not cooling down."
  }),
  consecutive_failures: Schema.Int.annotateKey({ description: "Failed attempts since the last success." }),
  pending_deliveries: Schema.Int.annotateKey({ description: "Deliveries that are queued or being sent." })
}).annotate({
  identifier: "NotificationEndpoint",
  description: "An HTTPS URL that receives approval events, signed, without its URL and signing secret."
})
export type NotificationEndpoint = typeof NotificationEndpoint.Type
