import { Schema } from "effect"
import { ApprovalEventType } from "../approvals/ApprovalEvent.ts"
import { EndpointId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Timestamp } from "../Time.ts"

/** An HTTPS receiver of approval events. Its address and secret are never shown after creation. */
export const NotificationEndpoint = Schema.Struct({
  id: EndpointId,
  /** The list as it was selected: a new event type widens nobody. */
  events: Schema.Array(ApprovalEventType),
  active: Schema.Boolean,
  created_at: Timestamp,
  created_by: Actor,
  /** Scheme, host and a masked path. */
  url_hint: Schema.String,
  /** While it lasts nothing is sent; null: the endpoint is not cooling down. */
  cooldown_until: Schema.NullOr(Timestamp),
  consecutive_failures: Schema.Int,
  /** Deliveries that wait or are being sent. */
  pending_deliveries: Schema.Int
}).annotate({ identifier: "NotificationEndpoint" })
export type NotificationEndpoint = typeof NotificationEndpoint.Type
